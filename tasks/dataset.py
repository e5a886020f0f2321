"""Dataset: prompts with answers from a file or the hub, and rewards by name. Single-role RL on whatever you have.

The shape most language models are trained with, on data of your own: several samples of each prompt, compared with
each other (`credit.kind = "grpo"`). What a reply is worth is said by reward functions, named in the options
(`engine/rewards/named.py` lists them) or written in a file of yours. A share of the prompts is held out by a hash,
is never trained on whatever the seed, and is what `accuracy` is measured on.

Known to go wrong: a reward that reads only a part of the reply is got by whatever fills the rest, so add one that
minds the rest (`length`, `format`); a key that is wrong is learnt like one that is right; samples that are all
right or all wrong teach nothing (`signal` tells), and where nearly all are wrong at first a moving average over all
prompts (`credit.kind = "rae"`) is the better baseline. And a model that knew the held-out answers before tells
nothing of learning: compare with the accuracy before the first step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Annotated, Any

from engine import (
    Arena,
    Between,
    Count,
    EpisodeRequest,
    Epochs,
    GenerateResult,
    Parts,
    Role,
    Rubric,
    Task,
    TaskError,
    reward,
)
from tasks.answering import Answering, Prompts
from tasks.answering.filters import worth


class Dataset(Task):
    """Options: `path` of a file, an id of the hub, or `arithmetic.jsonl`, which comes along; `config` and
    `split` of a data set of the hub; columns `prompt`, `answer` ("" for none) and `choices`, or a
    `template` over columns for the prompt; `rewards`, names, or name → options and a `weight`; `samples` of
    each prompt in a step; worked `examples` before each; the share `held_out`, or an `evaluation` file (or
    "split:test") in its place."""

    def __init__(
        self,
        *,
        path: str = "arithmetic.jsonl",
        config: str = "",
        split: str = "train",
        prompt: str = "prompt",
        answer: str = "answer",
        choices: str = "",
        template: str = "",
        rewards: list[str] | dict[str, dict[str, Any]] = ["exact"],  # noqa: B006  read, never changed
        samples: Count = 8,
        examples: Annotated[int, Between(0, 20)] = 0,
        held_out: Annotated[float, Between(0.01, 0.9)] = 0.1,
        evaluation: str = "",
    ) -> None:
        self.samples, self.rubric = samples, rubric_of(rewards)
        keyed = sorted({"exact", "numeric"} & {*self.rubric.functions})
        if keyed and not answer:
            raise TaskError(f"dataset: option 'answer' wants a column: the reward {keyed[0]!r} compares with it")
        self.prompts = Prompts(
            "dataset", path, examples=examples, numbers="numeric" in keyed, config=config, split=split,
            prompt=prompt, answer=answer, choices=choices, template=template, share=held_out, evaluation=evaluation,
        )  # fmt: skip

    @property
    def parts(self) -> Parts:
        return self.prompts.parts

    def prepare(self) -> None:
        self.prompts.read()

    def setup(self, arena: Arena) -> None:
        arena.add_role(Role("Solver", max_tokens=256))
        for name, greedy in (("answer", False), ("exam", True)):
            arena.add_episode(name, Answering(self.rubric, self.prompts, greedy=greedy))
        arena.add_store("examples", Epochs(lambda: self.parts.train, seed=arena.seed))

    def requests(self, arena: Arena, n: int) -> list[EpisodeRequest]:
        """Each prompt `samples` times; the last one less often where `n` isn't a multiple."""
        examples = arena.stores["examples"].sample(math.ceil(n / self.samples))
        return [EpisodeRequest("answer", example.data) for example in examples for _ in range(self.samples)][:n]

    async def evaluate(self, arena: Arena, n: int, label: str) -> dict[str, float]:
        """Of held-out prompts: `accuracy`, the first reward's mean, answered greedily, and that of every reward by
        its name; `sampled`, the first one's as the role samples. `repeated`: examples that were there before."""
        asked = [example.artifact for example in self.parts.held_out[:n]]
        results = {
            kind: await arena.generate_rollouts(
                [EpisodeRequest(kind, artifact, is_trainable=False) for artifact in asked], label=f"{label}/{kind}"
            )
            for kind in ("exam", "answer")
        }
        first, *_ = names = list(self.rubric.functions)
        metrics = {name: mean(results["exam"], name) for name in names}
        own = {"accuracy": metrics[first], "sampled": mean(results["answer"], first)}
        return {**metrics, **own, "repeated": float(self.parts.repeated)}


def mean(results: Sequence[GenerateResult], function: str) -> float:
    """What a reward function gave the Solver, on average over the rollouts it judged."""
    return fmean([worth(result, function) for result in results if result.rollout.is_scored] or [0.0])


def rubric_of(rewards: list[str] | dict[str, dict[str, Any]]) -> Rubric:
    """The rewards an option names, each with its weight."""
    table = rewards if isinstance(rewards, dict) else {name: {} for name in rewards}
    if not table:
        raise TaskError("dataset: option 'rewards' wants at least one name, such as 'exact'")
    weights = [options.get("weight", 1.0) for options in table.values()]
    if any(isinstance(weight, bool) or not isinstance(weight, int | float) for weight in weights):
        raise TaskError(f"dataset: in option 'rewards' a weight is a number; they are {weights}")
    without = {name: {k: v for k, v in options.items() if k != "weight"} for name, options in table.items()}
    return Rubric([reward(name, role="Solver", options=options) for name, options in without.items()], weights)
