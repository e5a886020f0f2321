"""What a batcher samples, counted, against the exact distribution: numpy over the logits of mlx-lm on its own.

Every way of sampling is in the same batch, so that what one row asks for could show in another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import chisquare

from engine.inference import models
from engine.inference.adapters import Adapters
from engine.inference.batcher import Batcher
from engine.inference.constraints import Choices
from engine.inference.requests import Request
from engine.types import Sampling
from tests.inference.alone import Alone, Source, alone
from tests.inference.conftest import LORA, moved, save_adapter

SAMPLES = 3000
TOKENS = 2
PROMPT = np.random.default_rng(5).integers(3, 260, 25).tolist()
LIKELY = 20.0
"""A first token expected so often is told apart by what follows it."""


@dataclass(frozen=True)
class Setting:
    """A way of sampling, as a request asks for it."""

    sampling: Sampling
    bias: tuple[tuple[int, float], ...] = ()
    choices: tuple[tuple[int, int], ...] = ()


SETTINGS = {
    "temperature 1": Setting(Sampling(max_tokens=TOKENS)),
    "temperature 0.6": Setting(Sampling(0.6, TOKENS)),
    "temperature 1.5": Setting(Sampling(1.5, TOKENS)),
    "top-p": Setting(Sampling(1.0, TOKENS, top_p=0.7)),
    "top-k": Setting(Sampling(1.0, TOKENS, top_k=4)),
    "min-p": Setting(Sampling(1.0, TOKENS, min_p=0.2)),
    "all three, hot": Setting(Sampling(1.3, TOKENS, top_p=0.8, top_k=9, min_p=0.1)),
    "repetition penalty": Setting(Sampling(1.0, TOKENS, repetition_penalty=1.6)),
    "logit bias": Setting(Sampling(1.0, TOKENS), bias=((3, 9.0), (100, 7.5), (259, -3.0))),
    "legal answers": Setting(Sampling(2.0, TOKENS), choices=((10, 20), (10, 21), (30, 40), (31, 41), (32, 9))),
    "everything": Setting(
        Sampling(1.4, TOKENS, top_p=0.9, top_k=5, min_p=0.05, repetition_penalty=1.3), bias=((7, 6.0), (8, 6.0))
    ),
}


@pytest.fixture(scope="module")
def mlx_lm() -> Iterator[Alone]:
    with alone() as process:
        yield process


@pytest.fixture(scope="module")
def source(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Source:
    """Player "red"."""
    adapters = Adapters(models.load(str(folder), context=256)[0], LORA)
    return folder, save_adapter(tmp_path_factory.mktemp("red") / "red", adapters, moved(adapters, 1))


@pytest.fixture(scope="module")
def counts(folder: Path) -> dict[str, Counter[tuple[int, ...]]]:
    """How often each pair of tokens came, of all settings in one batcher."""
    lm, _ = models.load(str(folder), context=256)
    lm.eos_tokens = frozenset()
    adapters = Adapters(lm, LORA)
    adapters.publish("red", moved(adapters, 1), 1)
    batcher = Batcher(lm, adapters, rows=512)
    names = list(SETTINGS)
    for id in range(SAMPLES * len(names)):
        setting = SETTINGS[names[id % len(names)]]
        choices = Choices(setting.choices) if setting.choices else None
        batcher.add(Request(id, PROMPT, setting.sampling, "red", key=id, bias=setting.bias, choices=choices))
    counts: dict[str, Counter[tuple[int, ...]]] = {name: Counter() for name in names}
    while len(batcher):
        for end in batcher.tick().finished:
            counts[names[end.id % len(names)]][tuple(end.tokens)] += 1
    return counts


@pytest.fixture(scope="module")
def exact(mlx_lm: Alone, source: Source) -> dict[str, dict[tuple[int, ...], float]]:
    """The probabilities of pairs of tokens, of the likely ones."""
    [first] = (logits[-1] for logits in mlx_lm.logits([(source, PROMPT)]))
    ways = {name: distribution(setting, PROMPT, first) for name, setting in SETTINGS.items()}
    likely = sorted({int(token) for way in ways.values() for token in np.flatnonzero(way * SAMPLES >= LIKELY)})
    after = mlx_lm.logits((source, [*PROMPT, token]) for token in likely)
    pairs: dict[str, dict[tuple[int, ...], float]] = {name: {} for name in SETTINGS}
    for token, logits in zip(likely, after, strict=True):
        for name, setting in SETTINGS.items():
            share = ways[name][token]
            second = distribution(setting, [*PROMPT, token], logits[-1]) if share else np.zeros(len(logits[-1]))
            pairs[name] |= {(token, next): share * p for next, p in enumerate(second)}
    return pairs


def distribution(setting: Setting, seen: Sequence[int], logits: np.ndarray) -> np.ndarray:
    """[V]: repetition penalty (arXiv 1909.05858), bias, legal answers, temperature, then what is kept of it."""
    sampling, adjusted = setting.sampling, logits.copy()
    for token in set(seen):
        penalty = sampling.repetition_penalty
        adjusted[token] = logits[token] / penalty if logits[token] > 0 else logits[token] * penalty
    for token, value in setting.bias:
        adjusted[token] += value
    if setting.choices:
        said = tuple(seen[len(PROMPT) :])
        legal = {choice[len(said)] for choice in setting.choices if choice[: len(said)] == said}
        adjusted[[token for token in range(len(logits)) if token not in legal]] = -np.inf
    probabilities = softmax(adjusted / sampling.temperature)
    order = np.argsort(-probabilities)
    kept = np.zeros(len(logits), dtype=bool)
    before = 0.0
    for rank, token in enumerate(order):
        p = probabilities[token]
        within = before < sampling.top_p and (rank < sampling.top_k or not sampling.top_k)
        kept[token] = within and p >= sampling.min_p * probabilities[order[0]]
        before += p
    return np.where(kept, probabilities, 0.0) / probabilities[kept].sum()


def fit(counts: Mapping[tuple[int, ...], int], exact: Mapping[tuple[int, ...], float]) -> float:
    """How probable so large a deviation is, by χ² over the pairs expected 5 times or more and all the others."""
    if any(counts.get(pair, 0) and not p for pair, p in exact.items()):
        return 0.0  # what can't be was
    bins = sorted(
        ((SAMPLES * p, counts.get(pair, 0)) for pair, p in exact.items() if SAMPLES * p >= 5), reverse=True
    )
    rest = [SAMPLES - sum(each) for each in zip(*bins, strict=True)]
    if rest[0] < 5:
        rest = [sum(each) for each in zip(rest, bins.pop(), strict=True)]
    expected, observed = zip(*bins, rest, strict=True)
    return float(chisquare(observed, expected).pvalue)


@pytest.mark.parametrize("name", SETTINGS)
def test_sampled_frequencies_are_those_of_the_exact_distribution_and_of_no_other(name, counts, exact):
    assert sum(counts[name].values()) == SAMPLES
    assert fit(counts[name], exact[name]) > 1e-3
    for other in SETTINGS.keys() - {name}:
        assert fit(counts[name], exact[other]) < 1e-6, other
