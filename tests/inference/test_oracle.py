"""What comes out of a crowded batcher is what mlx-lm, in a process of its own, gives for each row alone.

Every model is asked by a crowd of requests: ragged prompts, some equal, some that begin alike, some that go on from
an earlier reply; of several players, one of which is published anew meanwhile; greedy and sampled side by side;
joining, leaving and withdrawn at random ticks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from scipy.special import log_softmax

from engine.inference import models
from engine.inference.adapters import Adapters
from engine.inference.batcher import Batcher
from engine.inference.models import LanguageModel
from engine.inference.prefix_cache import Stats
from engine.inference.requests import Finished, Request
from engine.types import BASE, Sampling, StopReason
from tests.inference.alone import Alone, Source, alone
from tests.inference.conftest import LORA, moved, save_adapter
from tests.tiny import tiny_model

GQA = {"heads": 4, "num_key_value_heads": 2}
MODELS = {
    "pocket": None,
    "grouped-query": GQA,
    "qwen2, with biases": {"model_type": "qwen2", **GQA},
    "qwen3, with normed queries": {"model_type": "qwen3", "head_dim": 16, **GQA},
    "sliding window": {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]},
    "gemma3": {
        "model_type": "gemma3_text",
        "head_dim": 16,
        "query_pre_attn_scalar": 16,
        "sliding_window": 16,
        "sliding_window_pattern": 2,
        **GQA,
    },
}
PLAYERS = (BASE, "red", "blue", "green")
VERSIONS = {"red": (1, 2, 3), "blue": (4,), "green": (5,)}
"""What is published for each; later ones while a crowd is being played."""
AMPLE, SCARCE = 1 << 30, 1 << 18
"""Bytes for keys and values of what was said before."""
TIE = 1e-4
"""Log-probabilities nearer than this are rounded differently by batches of different shapes."""


@dataclass
class Model:
    """One loaded on either side, with the same adapters."""

    lm: LanguageModel
    adapters: Adapters
    sources: dict[tuple[str, int], Source]
    """Of each player and version, what mlx-lm loads."""

    def publish(self, player: str, version: int) -> None:
        self.adapters.publish(player, moved(self.adapters, version), version)


@dataclass
class Spoken:
    """A request, how it ended, and by which weights."""

    source: Source
    request: Request
    end: Finished


@dataclass
class Crowd:
    """Requests that came at random ticks, and their ends."""

    stats: Stats
    requests: dict[int, Request] = field(default_factory=dict)
    finished: dict[int, Finished] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)
    """Which one spoke; not of requests under way when their player was published anew."""

    def __iter__(self) -> Iterator[tuple[Request, Finished]]:
        assert self.finished.keys() == self.requests.keys()
        return ((self.requests[id], self.finished[id]) for id in self.requests)


@pytest.fixture(scope="module")
def mlx_lm() -> Iterator[Alone]:
    with alone() as process:
        yield process


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    config, folder = MODELS[request.param], tmp_path_factory.mktemp("model")
    mx.random.seed(1)  # of what `tiny_model` leaves as mlx-lm makes it: biases
    source = "pocket" if config is None else str(tiny_model(folder / "base", **config))
    return load(source, folder)


def load(source: str, folder: Path) -> Model:
    lm, _ = models.load(source, context=256)
    lm.eos_tokens = frozenset()
    model = Model(lm, Adapters(lm, LORA), {(BASE, 0): (lm.path, None)})
    for player, versions in VERSIONS.items():
        model.publish(player, versions[0])
        for version in versions:
            adapter = save_adapter(folder / f"{player}-{version}", model.adapters, moved(model.adapters, version))
            model.sources[player, version] = lm.path, adapter
    return model


def crowd(
    model: Model, seed: int, *, prefill_tokens: int = 8192, prefix_bytes: int = AMPLE, count: int = 80
) -> Crowd:
    """Play a crowd of requests until each has ended."""
    rng = np.random.default_rng(seed)
    batcher = Batcher(model.lm, model.adapters, rows=7, prefill_tokens=prefill_tokens, prefix_bytes=prefix_bytes)
    crowd, beginning = Crowd(batcher.stats), random_tokens(rng, 80)
    due = [(count * place // len(VERSIONS["red"]), version) for place, version in enumerate(VERSIONS["red"])]
    while len(crowd.requests) < count or len(batcher):
        if due and len(crowd.finished) >= due[0][0]:
            model.publish("red", due.pop(0)[1])
            for id in crowd.requests.keys() - crowd.finished.keys():
                if crowd.requests[id].player == "red":
                    crowd.versions.pop(id, None)
        for _ in range(min(rng.integers(0, 4), count - len(crowd.requests), 10 - len(batcher))):
            id = len(crowd.requests)
            prompt, player = prompt_of_someone(rng, crowd, beginning)
            sampling = Sampling(temperature=float(rng.choice([0.0, 0.7, 1.0])), max_tokens=int(rng.integers(1, 16)))
            crowd.requests[id] = Request(id, prompt, sampling, player, key=1000 * seed + id)
            crowd.versions[id] = model.adapters.version(player)
            batcher.add(crowd.requests[id])
        if len(crowd.requests) and rng.random() < 0.1:
            batcher.cancel(int(rng.integers(len(crowd.requests))))
        for end in batcher.tick().finished:
            assert end.id not in crowd.finished
            crowd.finished[end.id] = end
    return crowd


def prompt_of_someone(rng: np.random.Generator, crowd: Crowd, beginning: list[int]) -> tuple[list[int], str]:
    """A prompt of 1 to 200 tokens, and whose."""
    kind, player = rng.integers(5), str(rng.choice(PLAYERS, p=(0.2, 0.4, 0.2, 0.2)))
    if kind == 0 and crowd.requests:  # once more, of the same player
        earlier = crowd.requests[int(rng.integers(len(crowd.requests)))]
        return list(earlier.prompt), earlier.player
    if kind == 1 and crowd.finished:  # the conversation goes on
        end = crowd.finished[int(rng.choice(list(crowd.finished)))]
        earlier = crowd.requests[end.id]
        if len(earlier.prompt) < 150:
            return [*earlier.prompt, *end.tokens, *random_tokens(rng, rng.integers(1, 12))], earlier.player
    if kind == 2:
        return beginning + random_tokens(rng, rng.integers(1, 30)), player
    if kind == 3:
        return random_tokens(rng, rng.integers(60, 150)), player
    return random_tokens(rng, rng.integers(1, 40)), player


def random_tokens(rng: np.random.Generator, count: int | np.integer) -> list[int]:
    return rng.integers(3, 260, count).tolist()


def test_the_oracle_knows_nothing_of_the_engine(mlx_lm):
    imported = mlx_lm.modules()
    assert "mlx_lm.generate" in imported
    assert [name for name in imported if name.split(".")[0] == "engine"] == []


@pytest.mark.parametrize(
    ("prefill_tokens", "prefix_bytes"), [(16, AMPLE), pytest.param(200, SCARCE, marks=pytest.mark.slow)]
)
def test_greedy_rows_are_mlx_lms_generation_and_sampled_ones_have_the_logprobs_of_one_whole_pass(
    model, mlx_lm, prefill_tokens, prefix_bytes
):
    """Of every player and version; requests under way when their player was published anew are left out."""
    greedy: list[Spoken] = []
    sampled: list[Spoken] = []
    played = crowd(model, seed=prefill_tokens, prefill_tokens=prefill_tokens, prefix_bytes=prefix_bytes)
    for request, end in played:
        if request.id in played.versions and end.tokens:
            assert set(end.versions) == {played.versions[request.id]}
            spoken = Spoken(model.sources[request.player, end.versions[0]], request, end)
            (sampled if request.sampling.temperature > 0 else greedy).append(spoken)
    assert {each.source for each in (*greedy, *sampled)} == set(model.sources.values())
    assert min(len(greedy), len(sampled)) >= 10
    assert played.stats.hits >= 5
    assert_greedy(greedy, mlx_lm)
    assert_logprobs(sampled, mlx_lm)


def assert_greedy(greedy: list[Spoken], mlx_lm: Alone) -> None:
    expected = mlx_lm.greedy((each.source, each.request.prompt, len(each.end.tokens)) for each in greedy)
    ties = 0
    for each, (tokens, margins) in zip(greedy, expected, strict=True):
        sure = next((place for place, margin in enumerate(margins) if margin < TIE), len(margins))
        ties += sure < len(margins)
        assert each.end.tokens[:sure] == tokens[:sure], each
    assert ties <= 1


def assert_logprobs(sampled: list[Spoken], mlx_lm: Alone) -> None:
    logits = mlx_lm.logits((each.source, [*each.request.prompt, *each.end.tokens]) for each in sampled)
    for each, whole in zip(sampled, logits, strict=True):
        after = whole[len(each.request.prompt) - 1 : -1] / each.request.sampling.temperature
        exact = log_softmax(after, axis=-1)[np.arange(len(each.end.tokens)), each.end.tokens]
        np.testing.assert_allclose(each.end.logprobs, exact, atol=1e-4, rtol=0, err_msg=f"{each}")


def test_the_same_requests_at_the_same_ticks_give_the_same_tokens_and_logprobs_to_the_last_bit(model):
    first, again = (crowd(model, seed=3, prefill_tokens=64, prefix_bytes=SCARCE, count=40) for _ in range(2))
    assert first.requests == again.requests
    assert first.finished == again.finished


def test_a_row_alone_gets_the_tokens_that_it_gets_in_a_crowd(model):
    """Left out: those withdrawn, and those under way when their player was published anew."""
    played = crowd(model, seed=4)
    whole = [
        (request, end)
        for request, end in played
        if request.id in played.versions and end.stop_reason is StopReason.LENGTH
    ]
    assert len(whole) > len(played.requests) / 2
    for request, in_crowd in whole[::5]:
        if request.player != BASE:
            model.publish(request.player, in_crowd.versions[0])
        batcher = Batcher(model.lm, model.adapters)
        batcher.add(request)
        [in_solitude] = [end for _ in range(request.sampling.max_tokens) for end in batcher.tick().finished]
        assert in_solitude.tokens == in_crowd.tokens
        np.testing.assert_allclose(in_solitude.logprobs, in_crowd.logprobs, atol=1e-4, rtol=0)
