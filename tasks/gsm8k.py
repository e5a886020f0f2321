"""GSM8K: grade school sums in words, answered after thinking aloud. The usual benchmark of RL with checked answers.

Some 8,500 problems by Cobbe et al. (arXiv 2110.14168), read from the hub (`openai/gsm8k`, which needs `pip install
'selfplay-tui[data]'`) or from a file of the same columns. The reward is 1 where the number behind `####` is the
key's, else 0; several samples of each problem are compared with each other (GRPO, arXiv 2402.03300). What is
measured is the set's own `test` split, which is never trained on.

Known to go wrong: a reply that is cut off has no `####`, so a model learns to be short before it learns to be right
if `max_tokens` is tight; a small model is right about so few problems that most groups teach nothing (`signal`);
and what the model was made from may have held the test problems: compare with the accuracy before the first step.
"""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

from engine import (
    Arena,
    Between,
    Count,
    EpisodeRequest,
    EpisodeState,
    Epochs,
    Parts,
    Role,
    Rubric,
    Task,
    TaskError,
    is_on_hub,
    read_number,
    read_parts,
    reward,
)
from tasks.answering import Answering, read_early
from tasks.answering.filters import worth

SYSTEM = """Solve the problem step by step, in few words. End with one line that has only #### and the answer as
a number. Example of the last line:
#### 42"""


class Problem(Answering):
    """One problem; a reply without one number behind #### is ruled out, and counted."""

    rubric = Rubric([reward("numeric", role="Solver", options={"marked": True})])

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        state = await super().rollout(arena, artifact, state)
        state.turns[-1].illegal = read_number(state.data["reply"], marked=True) is None
        return state


class GSM8K(Task):
    """Options: `path`, an id of the hub or a file with the columns `question` and `answer`, whose answers end in
    `#### 42`; `evaluation`, a file to measure on, "" for the set's test split or, of a file, the share `held_out`;
    `samples` of each problem in a step."""

    def __init__(
        self,
        *,
        path: str = "openai/gsm8k",
        evaluation: str = "",
        held_out: Annotated[float, Between(0.01, 0.9)] = 0.1,
        samples: Count = 8,
    ) -> None:
        self.path, self.samples, self.share = path, samples, held_out
        self.has_splits = is_on_hub(path) or Path(path).expanduser().is_dir()
        self.evaluation = evaluation or ("split:test" if self.has_splits else "")
        read_early(path, self.prepare)

    @cached_property
    def parts(self) -> Parts:
        config = "main" if self.has_splits else ""
        parts = read_parts(
            self.path,
            share=self.share,
            evaluation=self.evaluation,
            prompt="question",
            answer="answer",
            config=config,
        )
        for example in [*parts.train, *parts.held_out]:
            if read_number(str(example.answer), marked=True) is None:
                raise TaskError(f"{example.place}: column 'answer' ends in no number behind ####")
        return parts

    def prepare(self) -> None:
        _ = self.parts

    def setup(self, arena: Arena) -> None:
        arena.add_role(Role("Solver", system_prompt=SYSTEM, max_tokens=320))
        arena.add_episode("problem", Problem(Problem.rubric))
        arena.add_episode("exam", Problem(Problem.rubric, greedy=True))
        arena.add_store("problems", Epochs(lambda: self.parts.train, seed=arena.seed))

    def requests(self, arena: Arena, n: int) -> list[EpisodeRequest]:
        """Each problem `samples` times; the last one less often where `n` isn't a multiple."""
        problems = arena.stores["problems"].sample(math.ceil(n / self.samples))
        return [EpisodeRequest("problem", problem.data) for problem in problems for _ in range(self.samples)][:n]

    async def evaluate(self, arena: Arena, n: int, label: str) -> dict[str, float]:
        """Of the test problems, greedily: `accuracy`, and the share `unread`, without one number behind ####."""
        asked = [EpisodeRequest("exam", e.artifact, is_trainable=False) for e in self.parts.held_out[:n]]
        results = await arena.generate_rollouts(asked, label=label)
        right = [worth(result, "numeric") for result in results]
        unread = [float(any(turn.illegal for turn in result.rollout.turns)) for result in results]
        return {"accuracy": fmean(right or [0.0]), "unread": fmean(unread or [0.0])}
