"""How fast the engine learns and in how much memory, beside plain log-probabilities and mlx-lm's own LoRA trainer.

`python -m tests.bench.learning [--model SOURCE] [--rows 64] [--length 512] [--rank 8] [--seconds 20]
[--sections backward,step] [--microbatch-tokens 0] [--json FILE] [--profile]`, from the repository's root. All sides
of a comparison run in turn, and their medians are compared. Prints tables, then JSON. Needs no network if the
model doesn't.

Sections: `backward` (peak memory and time a token of the gradient of all rows: in microbatches as the learner cuts
them, in one pass, with layers checkpointed, and with the logits of all tokens at once), `step` (tokens a second of
a whole optimiser step, against mlx-lm's on the same tokens).
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from engine.inference import blas

BLAS = blas.load()

import mlx.core as mx  # noqa: E402  (a BLAS must be under it first)
import mlx.nn as nn  # noqa: E402
import mlx.optimizers as optim  # noqa: E402
import numpy as np  # noqa: E402
from mlx_lm.tuner.trainer import default_loss  # noqa: E402

from engine.config import LoRAConfig, TrainConfig  # noqa: E402
from engine.inference import models  # noqa: E402
from engine.inference.adapters import Adapters  # noqa: E402
from engine.training import batching, budget, objective, passes  # noqa: E402
from engine.training.batching import Microbatch  # noqa: E402
from engine.training.learner import Learner  # noqa: E402
from engine.training.logprobs import Scores  # noqa: E402
from engine.training.measures import Measures  # noqa: E402
from engine.types import TrainingRecord  # noqa: E402
from tests.bench.generation import machine, on_gpu  # noqa: E402
from tests.bench.results import Result, Target, compared, in_turn, table  # noqa: E402
from tests.bench.sides import SCALE, Theirs, plain_maths, text_prompts  # noqa: E402

SECTIONS = ("backward", "step")
PROMPT = 8
"""Tokens of each row that are not learnt from."""
PLAIN = "with all logits at once"
MOST_GB = 16.0
"""Asked of 64 rows of 512 tokens on a GPU, at a vocabulary of 49,152 and a size of 135M (all logits: 61.7)."""
PLAIN_COPIES = 8
"""How many float32 arrays of all logits plain log-probabilities, entropy and their gradients need at once."""


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    bench = Bench(options)
    results: dict[str, list[Result]] = {}
    for section in options.sections:
        print(f"{section} …", flush=True)
        results[section] = getattr(bench, section)()
        print(table(results[section]), flush=True)
    report = {
        "machine": machine(),
        "options": {name: value for name, value in vars(options).items() if name != "json"},
        "results": {section: [result.json() for result in measured] for section, measured in results.items()},
    }
    text = json.dumps(report, default=str)
    print(f"\n{text}")
    if options.json:
        options.json.write_text(text, encoding="utf-8")


class Bench:
    """One model, and rows of equal length that are learnt from but for a short prompt."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.lm, tokenizer = models.load(options.model, options.length + 1)
        self.adapters = Adapters(self.lm, LoRAConfig(rank=options.rank, scale=SCALE))
        length = options.length + 1  # the last token predicts nothing
        self.texts = text_prompts(tokenizer.encode, options.rows, length, length)
        self.tokens = options.rows * options.length

    def train(self, **changed: Any) -> TrainConfig:
        """Plain policy gradient: no divergence, no entropy bonus."""
        return TrainConfig(loss="pg", **{"microbatch_tokens": self.options.microbatch_tokens, **changed})

    def records(self) -> list[TrainingRecord]:
        rng = np.random.default_rng(0)
        return [
            TrainingRecord(
                rollout_id=str(index),
                turn=0,
                role="Speaker",
                episode_type="bench",
                prompt_tokens=text[:PROMPT],
                tokens=text[PROMPT:],
                logprobs=rng.normal(-3.0, 0.1, len(text) - PROMPT).tolist(),
                versions=[0] * (len(text) - PROMPT),
                advantage=float(rng.normal()),
                temperature=1.0,
            )
            for index, text in enumerate(self.texts)
        ]

    def backward(self) -> list[Result]:
        """The gradient of all rows, cut into microbatches as the learner does, and in one pass."""
        self.packed = self.adapters.families.pack(self.adapters.initial(0))
        mx.eval(self.packed)
        about = self.lm, self.adapters, self.packed, self.train(), self.options.length
        as_learnt = self.options.microbatch_tokens or budget.tokens(
            self.lm, self.packed, self.train(), budget.cost(*about)
        )
        with budget.waiting(0):
            self.cost = budget.cost(*about, precise=True)
        print(f"microbatches of {as_learnt} tokens", flush=True)
        one_pass = 1 << 40
        sides: dict[str, Callable[[], tuple[float, float]]] = {
            "as learnt": partial(self._gradient, as_learnt),
            "in one pass": partial(self._gradient, one_pass),
            "layers checkpointed": partial(self._gradient, one_pass, checkpoint_layers=True),
        }
        plain_bytes = PLAIN_COPIES * 4.0 * self.tokens * self.lm.vocab_size
        if mx.get_active_memory() + plain_bytes < 0.85 * models.machine().memory:
            sides[PLAIN] = partial(self._plain_gradient, one_pass)
        else:
            print(f"{PLAIN} would take about {plain_bytes / 1e9:.0f} GB more, and is left out", flush=True)
        measured = in_turn(sides, self.options.seconds)
        whole = self.lm.vocab_size == 49152 and self.tokens == 32768 and on_gpu()
        found = []
        for name, side in measured.items():
            times = [1e6 * seconds / self.tokens for seconds, _ in side]
            peaks = [peak / 1e9 for _, peak in side]
            asked = name == "as learnt"
            if PLAIN in measured and name != PLAIN:
                plain_times = [1e6 * seconds / self.tokens for seconds, _ in measured[PLAIN]]
                plain_peaks = [peak / 1e9 for _, peak in measured[PLAIN]]
                target = Target(1.15, at_most=True) if asked else None
                found.append(compared(f"time a token {name}", times, PLAIN, plain_times, "µs", target))
                found.append(compared(f"peak {name}", peaks, PLAIN, plain_peaks, "GB"))
            elif name != PLAIN:
                found.append(Result(f"time a token {name}", statistics.median(times), "µs"))
                found.append(Result(f"peak {name}", max(peaks), "GB"))
            if asked and whole:
                found.append(Result("most memory", max(peaks), "GB", "asked", MOST_GB, Target(1.0, at_most=True)))
        return [*found, Result("graph of a pass built in", 1e3 * self._building(), "ms")]

    def _building(self) -> float:
        """Seconds of the host until there is something to compute."""
        [minibatch] = batching.minibatches(batching.rows(self.records()), 1, 1 << 40, np.random.default_rng(0))
        weights = objective.Weights.of(minibatch, None, self.train())
        times = []
        for _ in range(5):
            start = time.perf_counter()
            objective.backward(
                self.lm, self.adapters, self.packed, minibatch.microbatches[0], weights, self.train()
            )
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    def _gradient(self, most: int, waits: bool = True, **changed: Any) -> tuple[float, float]:
        """Seconds and peak bytes. It `waits` for memory as the learner does."""
        rng, train = np.random.default_rng(0), self.train(**changed)
        [minibatch] = batching.minibatches(batching.rows(self.records()), 1, most, rng, (), budget.multiple())
        weights = objective.Weights.of(minibatch, None, train)

        def room(microbatch: Microbatch, _: TrainConfig) -> float | None:
            return self.cost.of(microbatch.size) if waits and on_gpu() else None

        def work() -> None:
            about = self.lm, self.adapters, self.packed, minibatch.microbatches, weights, train
            for _ in passes.gradient(*about, Measures(0), room):
                pass

        return timed(work)

    def _plain_gradient(self, most: int) -> tuple[float, float]:
        with patch.object(objective, "score", plain_scores):
            return self._gradient(most, waits=False)

    def step(self) -> list[Result]:
        """A whole optimiser step from records to metrics, against mlx-lm's from an array of tokens."""
        learner = Learner(self.lm, self.adapters, self.train(), seed=0)
        records = self.records()
        theirs = TheirTrainer(self.options.model, self.options.rank, self.texts)
        if self.options.profile:
            print(profile(partial(whole_step, learner, records)), flush=True)
        measured = in_turn(
            {"ours": partial(timed, partial(whole_step, learner, records)), "theirs": partial(timed, theirs.step)},
            self.options.seconds,
        )
        rates = [[self.tokens / seconds for seconds, _ in measured[side]] for side in ("ours", "theirs")]
        peaks = [[peak / 1e9 for _, peak in measured[side]] for side in ("ours", "theirs")]
        return [
            compared("learning", rates[0], "mlx-lm", rates[1], "tokens/s", Target(1.0), theirs.note),
            compared("peak of a step", peaks[0], "mlx-lm", peaks[1], "GB"),
        ]


class TheirTrainer:
    """mlx-lm's LoRA trainer at its default settings, on one batch: what `mlx_lm.tuner.trainer.train` compiles."""

    def __init__(self, source: str, rank: int, texts: list[list[int]]) -> None:
        self._model = Theirs(source, rank)._model
        self._model.freeze()
        self._model.unfreeze(keys=["lora_a", "lora_b"], strict=False)
        self._model.train()
        self._optimiser = optim.AdamW(learning_rate=1e-5)
        self._batch = mx.array(texts, dtype=mx.int32), mx.array([[PROMPT, len(text)] for text in texts])
        self.note = f"{mx.get_active_memory() / 1e9:.2f} GB in use before"
        self._state = [self._model.state, self._optimiser.state, mx.random.state]
        gradient = nn.value_and_grad(self._model, default_loss)

        @partial(mx.compile, inputs=self._state, outputs=self._state)
        def step(batch: tuple[mx.array, mx.array]) -> tuple[mx.array, mx.array]:
            (loss, tokens), gradients = gradient(self._model, *batch)
            self._optimiser.update(self._model, gradients)
            return loss, tokens

        self._step: Any = step

    def step(self) -> None:
        with plain_maths(self._model):
            loss, tokens = self._step(self._batch)
            mx.eval(self._state, loss, tokens)


def plain_scores(
    lm: Any,
    hidden: mx.array,
    targets: mx.array,
    temperatures: mx.array,
    reference: mx.array | None = None,
    allowed: Any = None,
    **_: Any,
) -> Scores:
    """Log-probability and entropy as one writes them first: all logits [N, V], differentiated by MLX."""
    assert reference is None
    assert allowed is None
    logits = lm.head(hidden).astype(mx.float32) / temperatures[:, None]
    logs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    entropy = -mx.sum(mx.exp(logs) * logs, axis=-1)
    return Scores(mx.take_along_axis(logs, targets[:, None], axis=-1)[:, 0], mx.stop_gradient(entropy))


def whole_step(learner: Learner, records: list[TrainingRecord]) -> None:
    for _ in learner.step(records):
        pass


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds and peak bytes."""
    settle()
    mx.reset_peak_memory()
    start = time.perf_counter()
    work()
    mx.synchronize()
    return time.perf_counter() - start, float(mx.get_peak_memory())


def settle() -> None:
    gc.collect()
    mx.synchronize()


def profile(work: Callable[[], None]) -> str:
    """Where the host's time goes, by function."""
    with cProfile.Profile() as profiler:
        work()
    stats = pstats.Stats(profiler)
    rows = sorted(stats.stats.items(), key=lambda item: -item[1][2])[:25]  # type: ignore[attr-defined]
    return "\n".join(
        f"{own:8.4f} s own {calls:7d} calls  {where[0]}:{where[1]} {where[2]}"
        for where, (_, calls, own, _, _) in rows
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.learning")
    parser.add_argument("--model", default="pocket", help="a model source, as in model.source")
    parser.add_argument("--sections", type=_sections, default=SECTIONS, help=f"of {','.join(SECTIONS)}")
    parser.add_argument("--rows", type=int, default=64, help="rows of the batch")
    parser.add_argument("--length", type=int, default=512, help="tokens of a row that the model reads")
    parser.add_argument("--rank", type=int, default=8, help="of the adapter")
    parser.add_argument("--microbatch-tokens", type=int, default=TrainConfig().microbatch_tokens)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long a comparison goes on, at least")
    parser.add_argument("--json", type=Path, help="a file to write the results to")
    parser.add_argument("--profile", action="store_true", help="say first where the host's time of a step goes")
    return parser


def _sections(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(SECTIONS):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: there are {', '.join(SECTIONS)}")
    return names


if __name__ == "__main__":
    main()
