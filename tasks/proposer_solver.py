"""Proposer and solver: one role invents problems, the other solves them, and each is the other's curriculum.

Nested episodes and a Monte Carlo score: a proposal spawns solver attempts as children, and what it is worth depends
on how many of them are right, by one of the rewards in `engine.rewards.proposing` (goldilocks; SPICE, arXiv
2510.24684; Absolute Zero, 2505.03335; R-Zero, 2508.05004). Problems fill an artifact store, those that some
attempts solve and some don't with the greatest weight, and a share of later batches practises them.

Known to go wrong: a proposer stays with the one problem that pays (hence the repetition penalty, over the latest
proposals); a coin toss is half solvable for ever; where the proposer writes the key itself a wrong one looks like a
hard question; and with the majority's answer as the key all may agree on nonsense. A tiny model that learns sums by
heart knows each or doesn't, so that no single one stays half solved: `kind = "levels"` has the proposer choose how
large the numbers are, and the environment draw them.
"""

from __future__ import annotations

from fractions import Fraction
from statistics import fmean
from typing import Annotated, Any, Literal

from engine import (
    PROPOSER_REWARDS,
    Arena,
    ArtifactStore,
    Between,
    Count,
    Episode,
    EpisodeRequest,
    EpisodeState,
    Role,
    Rollout,
    Rubric,
    Share,
    SingleTurnEpisode,
    Task,
    TaskError,
    agreement,
    majority,
    read_number,
    repetition_penalty,
)
from tasks.proposing.kinds import Arithmetic, Kind, Levels, Questions
from tasks.proposing.sums import OPERATIONS, Sums

EXAM = 200
"""Sums kept to measure with, of each table."""
LEAST = 0.05
"""The weight of a stored problem that all attempts solve, or none: drawn now and then, so that forgetting shows."""


def right(rollout: Rollout, arena: Arena) -> dict[str, float]:
    """1 if the number the reply ends in is the answer, else 0; nothing where nobody knows the answer."""
    answer = rollout.artifact["answer"]
    return {} if answer is None else {"Solver": float(rollout.extras["answer"] == answer)}


class Solve(SingleTurnEpisode):
    """One attempt at one problem, as the role samples or greedily."""

    role = "Solver"
    rubric = Rubric([right])

    def __init__(self, kind: Kind, *, greedy: bool = False) -> None:
        super().__init__()
        self.kind, self.settings = kind, {"temperature": 0.0} if greedy else {}

    def prompt(self, artifact: Any) -> str:
        return self.kind.show(artifact["question"])

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        legal = self.kind.answers
        reply = await self.call_model(self.role, self.prompt(artifact), arena, legal=legal, **self.settings)
        number = read_number(reply.text)
        state.turns[-1].illegal = number is None
        state.data = {"answer": _written(number)}
        return state

    def get_extras(self, state: EpisodeState) -> dict[str, Any]:
        return state.data


class Practise(Episode):
    """Problems of the store, attempted again."""

    rubric = Rubric()

    def __init__(self, task: ProposerSolver, rubric: Rubric | None = None, *, keeps: bool = True) -> None:
        super().__init__(rubric)
        self.task, self.keeps = task, keeps

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        await self.attempt(arena, artifact, state)
        return state

    def get_extras(self, state: EpisodeState) -> dict[str, Any]:
        return state.data

    async def attempt(self, arena: Arena, problems: list[Any], state: EpisodeState) -> None:
        """Solvers attempt each problem. Kept are whether they were `right`, by the key or else the majority, and
        whether they `agreed` with the majority; and the problem in the store, if this episode `keeps` it there."""
        task = self.task
        asked = [EpisodeRequest("solve", problem, task.learns_from(problem)) for problem in problems]
        results = await arena.generate_rollouts([request for request in asked for _ in range(task.attempts)])
        state.data |= {"right": [], "agreed": [], "keys": []}
        for i, problem in enumerate(problems):
            siblings = results[i * task.attempts : (i + 1) * task.attempts]
            answers = [sibling.rollout.extras["answer"] for sibling in siblings if sibling.rollout.is_scored]
            key = problem["answer"] or majority(answers)
            solved = [float(key is not None and answer == key) for answer in answers]
            state.data["right"] += solved
            state.data["agreed"] += agreement(answers)
            state.data["keys"].append(key)
            if self.keeps and solved and key is not None and not task.kind.gives_away(problem["question"], key):
                task.remember(arena, {"question": problem["question"], "answer": key}, fmean(solved))


class Propose(Practise):
    """One proposal and the attempts at it."""

    def __init__(self, task: ProposerSolver, *, keeps: bool = True) -> None:
        rubric = Rubric([self.solve_rate, self.repetition], [task.stakes, task.stakes * task.repetition])
        super().__init__(task, rubric, keeps=keeps)

    def solve_rate(self, rollout: Rollout, arena: Arena) -> dict[str, float] | None:
        """What the attempts are worth by the reward that the preset names; None if none of them could be scored."""
        pay, extras = PROPOSER_REWARDS[self.task.reward], rollout.extras
        if extras["fault"] is not None:
            return {"Proposer": pay(None)}
        results = extras["agreed" if self.task.reward == "r_zero" else "right"]
        return {"Proposer": pay(results)} if results else None

    def repetition(self, rollout: Rollout, arena: Arena) -> dict[str, float]:
        """Minus the share of the latest proposals that are the same (R-Zero)."""
        return {"Proposer": -rollout.extras["repeated"]}

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        kind, latest = self.task.kind, arena.stores["latest"]
        reply = await self.call_model("Proposer", kind.ask(state.rng), arena, legal=kind.proposals)
        proposal = kind.read(reply.text, state.rng)
        problems = [{"question": q, "answer": a} for q, a in zip(proposal.problems, proposal.answers, strict=True)]
        await self.attempt(arena, problems, state)
        given_away = any(kind.gives_away(*p) for p in zip(proposal.problems, state.data["keys"], strict=True))
        fault = "gives its answer away" if given_away else proposal.fault
        state.turns[-1].illegal = fault is not None
        state.data |= {
            "proposal": proposal.topic,
            "problems": list(proposal.problems),
            "fault": fault,
            "repeated": repetition_penalty(proposal.topic, [each.data for each in latest], kind.alike),
        }
        if self.keeps:
            latest.add(proposal.topic)
        return state


class ProposerSolver(Task):
    """Options: the `kind` of proposals; which proposer `reward`; solver `attempts` at each problem, and whether
    solvers learn from them (`solvers_learn`); what the proposer's reward is multiplied by (`stakes`: it speaks once
    where its solvers speak often, and all tokens weigh the same); the weight of the `repetition` penalty over the
    latest `window` proposals; the share of a step's episodes that `replay` stored problems.

    Of sums: `operators`, some of "+-*"; `sizes`, the largest number of each level; whether they are asked for in
    words (`notation`). Of levels: how many sums are drawn for a proposal (`draws`). Of questions: whose answer is
    the `key`.
    """

    def __init__(
        self,
        *,
        kind: Literal["arithmetic", "levels", "questions"] = "arithmetic",
        reward: Literal["goldilocks", "spice", "absolute_zero", "r_zero"] = "goldilocks",
        attempts: Annotated[int, Between(1, 64)] = 8,
        solvers_learn: bool = True,
        stakes: Annotated[float, Between(0.0, 100.0)] = 1.0,
        repetition: Share = 0.5,
        window: Count = 64,
        replay: Share = 0.25,
        operators: str = "+",
        sizes: list[Count] | None = None,
        notation: Literal["words", "compact"] = "words",
        draws: Annotated[int, Between(1, 64)] = 8,
        key: Literal["proposer", "majority"] = "proposer",
    ) -> None:
        sizes = sizes or [9, 99, 999]
        if not operators or set(operators) - OPERATIONS.keys():
            raise TaskError(f"proposer_solver: option 'operators' is some of +, - and *, not {operators!r}")
        if sizes != sorted(set(sizes)) or sizes[-1] >= 10**9:
            raise TaskError(
                f"proposer_solver: option 'sizes' grows from level to level, up to nine digits, not {sizes}"
            )
        if kind == "questions" and key == "majority" and replay == 0.0:
            raise TaskError(
                "proposer_solver: option 'replay' is above 0 with key = 'majority', not 0: what the "
                "majority answered is known only afterwards, so solvers learn from stored questions"
            )
        try:
            sums = Sums("".join(dict.fromkeys(operators)), sizes)
        except ValueError as error:
            raise TaskError(f"proposer_solver: options 'sizes' and 'operators': {error}") from error
        words = notation == "words"
        self.arithmetic, self.held_out = Arithmetic(sums, words=words), sums.table(EXAM, held_out=True)
        self.trained_on = sums.table(EXAM, held_out=False)
        self.kind: Kind = self.arithmetic
        if kind == "levels":
            self.kind = Levels(sums, words=words, draws=draws)
        elif kind == "questions":
            self.kind = Questions(sums, keyed=key == "proposer")
        self.reward, self.attempts, self.solvers_learn = reward, attempts, solvers_learn
        self.stakes, self.repetition, self.window, self.replay = stakes, repetition, window, replay

    def setup(self, arena: Arena) -> None:
        arena.add_role(Role("Proposer", system_prompt=self.kind.proposer, max_tokens=160))
        arena.add_role(Role("Solver", system_prompt=self.kind.solver, max_tokens=160))
        arena.add_episode("propose", Propose(self))
        arena.add_episode("practise", Practise(self))
        arena.add_episode("solve", Solve(self.kind))
        arena.add_episode("trial", Propose(self, keeps=False))
        arena.add_episode("exam", Solve(self.arithmetic, greedy=True))
        arena.add_store("questions", ArtifactStore(capacity=2000, seed=arena.seed))
        arena.add_store("latest", ArtifactStore(capacity=self.window))

    def requests(self, arena: Arena, n: int) -> list[EpisodeRequest]:
        """Proposals, compared with each other, and a share of practice once there is something to practise."""
        questions = arena.stores["questions"]
        practised = round(n * self.replay) if len(questions) else 0
        drawn = [[each.data for each in questions.sample(self.kind.draws)] for _ in range(practised)]
        proposals = [EpisodeRequest("propose", group="proposals") for _ in range(n - practised)]
        return proposals + [EpisodeRequest("practise", problems) for problems in drawn]

    async def evaluate(self, arena: Arena, n: int, label: str) -> dict[str, float]:
        """Of `n` proposals: `solve_rate`; `target_gap`, the mean distance of a proposal's solve rate from one half;
        `difficulty`, the mean hardness of the problems; shares that are `distinct` and `invalid`. Of sums answered
        greedily: `accuracy` on those held out, `practised` on as many that may be trained on."""
        trials = await arena.generate_rollouts(
            [EpisodeRequest("trial", is_trainable=False) for _ in range(n)], label=f"{label}/proposals"
        )
        found = [trial.rollout.extras for trial in trials if trial.rollout.is_scored]
        valid = [extras for extras in found if extras["fault"] is None]
        rates = [fmean(extras["right"]) for extras in valid if extras["right"]]
        hardness = [self.kind.hardness(problem) for extras in valid for problem in extras["problems"]]
        return {
            "solve_rate": _mean(rates),
            "target_gap": _mean([abs(rate - 0.5) for rate in rates]),
            "difficulty": _mean(hardness),
            "distinct": len({extras["proposal"] for extras in valid}) / max(1, len(valid)),
            "invalid": 1.0 - len(valid) / max(1, len(found)),
            "accuracy": await self._examine(arena, self.held_out[:n], f"{label}/held-out"),
            "practised": await self._examine(arena, self.trained_on[:n], f"{label}/practised"),
        }

    def learns_from(self, problem: Any) -> bool:
        return self.solvers_learn and problem["answer"] is not None

    def remember(self, arena: Arena, problem: dict[str, str], solved: float) -> None:
        """Weigh a problem in the store by the variance of its results, from which a group learns."""
        store, weight = arena.stores["questions"], max(LEAST, 4.0 * solved * (1.0 - solved))
        known = next((each for each in store if each.data["question"] == problem["question"]), None)
        if known is not None:
            store.update_weight(known.id, weight)
        elif solved or self.kind.is_exact:  # a key that nobody confirms may be wrong
            store.add(problem, weight)

    async def _examine(self, arena: Arena, sums: list[str], label: str) -> float:
        asked = [{"question": each, "answer": str(self.arithmetic.sums.answer(each))} for each in sums]
        requests = [EpisodeRequest("exam", artifact, is_trainable=False) for artifact in asked]
        results = await arena.generate_rollouts(requests, label=label)
        return _mean([result.rewards.get("Solver", 0.0) for result in results])


def _mean(values: list[float]) -> float:
    return fmean(values) if values else 0.0


def _written(number: Fraction | None) -> str | None:
    return None if number is None else str(number)
