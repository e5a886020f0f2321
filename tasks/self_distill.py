"""Self-distillation: generate, verify, keep what survives, and learn to say it. Rejection sampling, no advantage.

A prompt is answered several times, a verifier passes or fails each answer, and the policy is trained on its own
passed answers as if they were examples (`credit.kind = "constant"`, `train.policy = 0`, `train.sft = 1`): STaR
(arXiv 2203.14465), RFT (arXiv 2308.01825). The verifier is a `key`; or what most answers say, without the key
(LMSI, arXiv 2210.11610); or a `judge`. Turns that don't survive are marked as not trainable; the others weigh 1.
A reply that was cut off never survives: learnt, it would teach never to end.

Known to go wrong: easy prompts have the most survivors and would crowd out the hard ones, hence at most `keep` of
each prompt, all different; nothing is learnt from failures, so what the model never gets right it never learns;
each round sharpens what the model believes already (entropy falls), and a majority that is wrong grows surer of it.
Watch `accuracy`, which is measured with the key, on held-out prompts, whatever the verifier.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from statistics import fmean
from typing import Annotated, Any, Literal

from engine import (
    Arena,
    Between,
    Count,
    Episode,
    EpisodeRequest,
    EpisodeState,
    Epochs,
    GenerateResult,
    Parts,
    Role,
    Rollout,
    Rubric,
    Share,
    Task,
    TaskError,
    read_number,
    reward,
)
from tasks.answering import Answering, Prompts
from tasks.answering.filters import Passed, by_majority, by_reward, plain, survivors, whole, worth


def survived(rollout: Rollout, arena: Arena) -> dict[str, float] | None:
    """The share of answers that passed, of those there is a verdict on."""
    judged = [passed for passed in rollout.extras["passed"] if passed is not None]
    return {"Solver": fmean(judged)} if judged else None


class Distil(Episode):
    """Attempts at one prompt, sorted: of those that don't survive no turn stays trainable."""

    rubric = Rubric([survived])

    def __init__(self, verify: Callable[[list[GenerateResult]], Passed], samples: int, keep: int) -> None:
        super().__init__()
        self.verify, self.samples, self.keep = verify, samples, keep

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        attempts = [EpisodeRequest("attempt", artifact) for _ in range(self.samples)]
        state.child_results = await arena.generate_rollouts(attempts)
        passed = self.verify(state.child_results)
        kept = survivors([whole(child) for child in state.child_results], passed, self.keep)
        for index, child in enumerate(state.child_results):
            for turn in child.rollout.turns:
                turn.trainable = turn.trainable and index in kept
        state.data = {"passed": passed, "kept": kept}
        return state

    def get_extras(self, state: EpisodeState) -> dict[str, Any]:
        return dict(state.data)


class SelfDistill(Task):
    """Options: `path`, `config`, `split`, columns `prompt` and `answer`, `template` and `held_out` as for
    `dataset`; worked `examples` before each prompt; `samples` of it, at most `keep` of which survive; the
    `verifier`, for a judge its `criteria` and the rating that is `passing`; whether to `compare` answers by their
    last number, `numeric`, or their text, `exact`."""

    def __init__(
        self,
        *,
        path: str = "arithmetic.jsonl",
        config: str = "",
        split: str = "train",
        prompt: str = "prompt",
        answer: str = "answer",
        template: str = "",
        held_out: Annotated[float, Between(0.01, 0.9)] = 0.1,
        samples: Annotated[int, Between(2, 64)] = 8,
        keep: Count = 2,
        examples: Annotated[int, Between(0, 20)] = 0,
        verifier: Literal["key", "majority", "judge"] = "key",
        compare: Literal["numeric", "exact"] = "numeric",
        criteria: str = "",
        passing: Share = 0.7,
    ) -> None:
        if not answer:
            raise TaskError("self_distill: option 'answer' wants a column: `accuracy` is measured with the key")
        self.samples, self.keep, self.verifier, self.passing = samples, keep, verifier, passing
        self.compare = compare
        self.compared: Callable[[str], Hashable] = read_number if compare == "numeric" else plain
        by_key, by_judge = (
            reward(compare, role="Solver"),
            reward("judge", role="Solver", options={"criteria": criteria}),
        )
        self.rubrics = {"key": Rubric([by_key]), "majority": Rubric(), "judge": Rubric([by_judge])}
        self.prompts = Prompts(
            "self_distill", path, examples=examples, numbers=compare == "numeric", config=config, split=split,
            prompt=prompt, answer=answer, template=template, share=held_out,
        )  # fmt: skip

    @property
    def parts(self) -> Parts:
        return self.prompts.parts

    def prepare(self) -> None:
        self.prompts.read()

    def setup(self, arena: Arena) -> None:
        arena.add_role(Role("Solver", max_tokens=256))
        arena.add_episode("distil", Distil(self._verify, self.samples, self.keep))
        for name, rubric, greedy in (("attempt", self.verifier, False), ("exam", "key", True)):
            arena.add_episode(name, Answering(self.rubrics[rubric], self.prompts, greedy=greedy))
        arena.add_store("examples", Epochs(lambda: self.parts.train, seed=arena.seed))

    def requests(self, arena: Arena, n: int) -> list[EpisodeRequest]:
        return [EpisodeRequest("distil", example.data) for example in arena.stores["examples"].sample(n)]

    async def evaluate(self, arena: Arena, n: int, label: str) -> dict[str, float]:
        """`accuracy` of held-out prompts answered greedily, by the key."""
        asked = [EpisodeRequest("exam", e.artifact, is_trainable=False) for e in self.parts.held_out[:n]]
        results = await arena.generate_rollouts(asked, label=label)
        return {"accuracy": fmean([worth(result, self.compare) for result in results] or [0.0])}

    def _verify(self, attempts: list[GenerateResult]) -> Passed:
        if self.verifier == "majority":
            return by_majority(attempts, self.compared)
        if self.verifier == "judge":
            return by_reward(attempts, "judge", self.passing)
        return by_reward(attempts, self.compare, 1.0)
