"""Arithmetic: one role, one question, one right answer. Reinforcement learning from a verifiable reward.

The shape most language models are trained with: several samples of each question, the group's mean as the baseline
(`credit.kind = "grpo"`). A share of the problems is held out by a fixed shuffle, never trained on, and is what
`accuracy` is measured on. Known to go wrong: a group that is all right or all wrong teaches nothing, so there have
to be questions of middling difficulty for the model at hand. Hence short numbers among the long ones; and a small
model that would rather talk can be shown some worked `examples`, and held to numbers by `constrained = true`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import fmean
from typing import Annotated, Any

from engine import (
    Arena,
    ArtifactStore,
    Between,
    Count,
    EpisodeRequest,
    EpisodeState,
    Message,
    Role,
    Rollout,
    Rubric,
    SingleTurnEpisode,
    Task,
    TaskError,
    read_number,
)

OPERATIONS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}
HELD_OUT = 500
"""Problems kept for evaluation, of at most a quarter of those there are."""
MOST_ANSWERS = 1_000_000
"""So many different answers there may be, to choose from where a role is constrained."""
Question = tuple[int, str, int]


def right(rollout: Rollout, arena: Arena) -> dict[str, float]:
    """1 if the reply's last number is the answer, else 0."""
    return {"Solver": float(read_number(rollout.extras["reply"]) == result(rollout.artifact))}


def result(question: Question) -> int:
    a, operator, b = question
    return OPERATIONS[operator](a, b)


def mirrored(question: Question) -> Question:
    """The same question asked the other way round, where there is one."""
    a, operator, b = question
    return question if operator == "-" else (b, operator, a)


def worked(question: Question) -> list[Message]:
    """A question and its answer, as a conversation."""
    a, operator, b = question
    return [
        {"role": "user", "content": f"What is {a} {operator} {b}?"},
        {"role": "assistant", "content": str(result(question))},
    ]


class Problem(SingleTurnEpisode):
    """One problem, answered as the role samples, or greedily."""

    role = "Solver"
    rubric = Rubric([right])

    def __init__(self, answers: Sequence[str], examples: Sequence[Question], *, greedy: bool = False) -> None:
        super().__init__()
        self.answers, self.shown = answers, [message for example in examples for message in worked(example)]
        self.settings = {"temperature": 0.0} if greedy else {}

    def prompt(self, artifact: Any) -> list[Message]:
        return [*self.shown, *worked(artifact)[:1]]

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        reply = await self.call_model(self.role, self.prompt(artifact), arena, legal=self.answers, **self.settings)
        state.data["reply"] = reply.text
        return state


class Arithmetic(Task):
    """Options: `operators`, some of "+-*"; most `digits` of a number; `samples` of each problem in a step; worked
    `examples` before each question."""

    def __init__(
        self,
        *,
        operators: str = "+-",
        digits: Annotated[int, Between(1, 4)] = 2,
        samples: Count = 8,
        examples: Annotated[int, Between(0, 20)] = 0,
    ) -> None:
        if not operators or set(operators) - OPERATIONS.keys():
            raise TaskError(f"arithmetic: option 'operators' is some of +, - and *, not {operators!r}")
        self.operators, self.digits, self.samples = "".join(dict.fromkeys(operators)), digits, samples
        self.total = len(self.operators) * 10 ** (2 * digits)
        self.answers = self._answers()
        self.examples = self._problems(random.Random("examples"), examples, frozenset())
        held_out = min(HELD_OUT, self.total // 4)
        self.held_out = self._problems(random.Random("held out"), held_out, frozenset(self.examples))

    def setup(self, arena: Arena) -> None:
        answers = [str(number) for number in self.answers]
        arena.add_role(Role("Solver", max_tokens=12))
        arena.add_episode("problem", Problem(answers, self.examples))
        arena.add_episode("exam", Problem(answers, self.examples, greedy=True))
        arena.add_store("problems", ArtifactStore(seed=arena.seed))
        train = self._problems(random.Random(arena.seed), 10_000, frozenset([*self.held_out, *self.examples]))
        for problem in train:
            arena.stores["problems"].add(problem)

    def requests(self, arena: Arena, n: int) -> list[EpisodeRequest]:
        """Each problem `samples` times; the last one less often where `n` isn't a multiple."""
        problems = arena.stores["problems"].sample(math.ceil(n / self.samples))
        return [EpisodeRequest("problem", problem.data) for problem in problems for _ in range(self.samples)][:n]

    async def evaluate(self, arena: Arena, n: int, label: str) -> dict[str, float]:
        """Of held-out problems: `accuracy` answered greedily, `hardest` where both numbers are of full length,
        `sampled` as the role samples."""
        problems = self.held_out[:n]
        exam, sampled = [await self._marks(arena, kind, problems, label) for kind in ("exam", "problem")]
        full = [mark for mark, (a, _, b) in zip(exam, problems, strict=True) if len(str(min(a, b))) == self.digits]
        return {"accuracy": fmean(exam), "hardest": fmean(full or [0.0]), "sampled": fmean(sampled)}

    async def _marks(self, arena: Arena, kind: str, problems: list[Question], label: str) -> list[float]:
        requests = [EpisodeRequest(kind, problem, is_trainable=False) for problem in problems]
        results = await arena.generate_rollouts(requests, label=f"{label}/{kind}")
        return [result.rewards.get("Solver", 0.0) for result in results]

    def _answers(self) -> range:
        """Every whole number from the least to the greatest answer."""
        largest = 10**self.digits - 1
        ends = [
            OPERATIONS[operator](a, b) for operator in self.operators for a in (0, largest) for b in (0, largest)
        ]
        answers = range(min(ends), max(ends) + 1)
        if len(answers) > MOST_ANSWERS:
            raise TaskError(
                f"arithmetic: option 'digits' = {self.digits} with 'operators' = {self.operators!r} has "
                f"{len(answers):,} possible answers; up to {MOST_ANSWERS:,} there may be, so take fewer digits"
            )
        return answers

    def _problems(self, rng: random.Random, count: int, without: frozenset[Question]) -> list[Question]:
        """Different problems in random order, none of `without` or mirrored: `count`, or half of all there are."""
        taken = {*without, *map(mirrored, without)}
        there = self.total - len(taken)
        found: dict[Question, None] = {}
        while len(found) < min(count, there // 2):
            a, b = (rng.randrange(10 ** rng.randint(1, self.digits)) for _ in range(2))
            problem = a, rng.choice(self.operators), b
            if problem not in taken:
                found[problem] = None
        return list(found)
