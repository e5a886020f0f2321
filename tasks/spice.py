"""SPICE: a challenger reads a passage and asks, solvers that don't see it answer. Self-play grounded in documents.

Nested training: every challenge spawns solvers, which are compared with each other, as challenges on one passage
are. The passage is what one side knows and the other doesn't, so that questions don't run dry, and answers can be
checked without a judge: they stand in the text. The challenger is paid most where half of its solvers are right
(variance reward, arXiv 2510.24684). Known to go wrong: a solver group that is all wrong teaches nothing, and that
is most of them while the model knows little of what the documents say; a challenger is then paid for what can be
guessed, such as one of two words; and an answer that is right in other words counts as wrong.
"""

from __future__ import annotations

import random
from statistics import fmean
from typing import Annotated, Any

from engine import (
    Arena,
    Between,
    Count,
    Documents,
    Episode,
    EpisodeRequest,
    EpisodeState,
    Message,
    RewardFunction,
    Role,
    Rollout,
    Rubric,
    Task,
    quoted,
    read_element,
    spice,
)
from tasks.library import HELD_OUT
from tasks.library.passages import AnswerOf, Passages
from tasks.library.questions import (
    FORMAT,
    FORMAT_OF_DRAWN,
    WORKED,
    answers,
    choices,
    facts,
    fault,
    read_proposal,
    tagged,
    to_propose,
    turns,
)

CHALLENGER = {
    "written": f"You are given a passage. {FORMAT}",
    "drawn": f"You are given a passage and an answer. {FORMAT_OF_DRAWN}",
}
SOLVER = """You are given a question. Answer it in one to five words. If you are not sure, give your best guess.
Write exactly this: <answer>the answer</answer>"""


def to_solve(question: str, among: list[str]) -> str:
    """What a solver is asked: a question, and the answers it may choose among."""
    asked = quoted("The question", question)
    return f"{asked}\n\n{quoted('One of these is the answer', chr(10).join(among))}" if among else asked


def solved(is_choice: bool) -> list[Message]:
    """Examples, as turns before what is asked; where there are choices, each one's answer is among the others'."""
    among = [answer for _, _, answer in WORKED] if is_choice else []
    return [turn for _, question, answer in WORKED for turn in turns(to_solve(question, among), tagged(answer))]


def variance(invalid: float) -> RewardFunction:
    """The challenger's reward: `exp(−(Var − 0.25)² / 0.02)` of its solvers' results; `invalid` where unsound."""

    def variance(rollout: Rollout, arena: Arena) -> dict[str, float] | None:
        solved = rollout.extras["solved"]
        if solved == []:  # the question is sound, but no solver came to an end
            return None
        return {"Challenger": spice(solved, invalid=invalid)}

    return variance


def right(rollout: Rollout, arena: Arena) -> dict[str, float]:
    """1 if the reply's one answer is that of the passage, but for case, punctuation and articles; else 0."""
    return {"Solver": float(rollout.extras["right"])}


class Challenge(Episode):
    """One passage, one question, and solvers for it if it is sound."""

    def __init__(self, solvers: int, choices: int, invalid: float) -> None:
        super().__init__(Rubric([variance(invalid)] if solvers else []))
        self.solvers, self.choices = solvers, choices

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        passage, drawn = artifact["text"], artifact.get("answer", "")
        reply = await self.call_model("Challenger", to_propose(passage, drawn), arena)
        question = read_proposal(reply.text, drawn)
        broken = fault(question, passage)
        state.data = {"question": None, "answer": None, "fault": broken, "solved": None}
        if question is None or broken:
            state.turns[-1].illegal = True
            return state
        among = choices([question.answer], facts(passage), self.choices, state.rng) if self.choices else []
        asked = {"question": question.text, "answers": [question.answer], "choices": among}
        children = await arena.generate_rollouts([EpisodeRequest("solve", asked) for _ in range(self.solvers)])
        solved = [float(child.rollout.extras["right"]) for child in children if child.rollout.error is None]
        state.data |= {"question": question.text, "answer": question.answer, "solved": solved}
        return state

    def get_extras(self, state: EpisodeState) -> dict[str, Any]:
        return state.data


class Solve(Episode):
    """One question, answered from what the model knows, or by one of its `choices`."""

    rubric = Rubric([right])

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        among = artifact.get("choices", [])
        messages = [*solved(bool(among)), {"role": "user", "content": to_solve(artifact["question"], among)}]
        reply = await self.call_model("Solver", messages, arena, legal=[tagged(choice) for choice in among])
        state.turns[-1].illegal = read_element(reply.text, "answer") is None
        state.data["right"] = answers(reply.text, artifact["answers"])
        return state

    def get_extras(self, state: EpisodeState) -> dict[str, Any]:
        return state.data


class Spice(Task):
    """Options: `folder` of text files and file of `questions` to measure with, those in `tasks/library` if empty;
    most `words` of a passage; whose `answer` is asked for, the challenger's own or a name or number drawn from the
    passage; how many `choices` a solver is given, the others being names and numbers of the passage, 0 for none;
    `solvers` for each question; `samples` of each passage in a step; what an `invalid` question is worth."""

    def __init__(
        self,
        *,
        folder: str = "",
        questions: str = "",
        words: Annotated[int, Between(20, 1000)] = 150,
        answer: AnswerOf = "written",
        choices: Annotated[int, Between(0, 20)] = 0,
        solvers: Annotated[int, Between(2, 64)] = 8,
        samples: Count = 4,
        invalid: Annotated[float, Between(-10.0, 0.0)] = -0.1,
    ) -> None:
        self.passages = Passages("spice", folder, questions, words=words, answer=answer, facts=max(1, choices))
        self.held_out = Documents(HELD_OUT, words=words)
        self.choices, self.solvers, self.samples, self.invalid = choices, solvers, samples, invalid

    def setup(self, arena: Arena) -> None:
        prompt = CHALLENGER[self.passages.answer]
        arena.add_role(Role("Challenger", system_prompt=prompt, max_tokens=160))
        arena.add_role(Role("Solver", system_prompt=SOLVER, max_tokens=48))
        arena.add_episode("challenge", Challenge(self.solvers, self.choices, self.invalid))
        arena.add_episode("proposal", Challenge(0, 0, self.invalid))
        arena.add_episode("solve", Solve())

    def requests(self, arena: Arena, n: int) -> list[EpisodeRequest]:
        return self.passages.requests("challenge", arena, n, self.samples)

    async def evaluate(self, arena: Arena, n: int, label: str) -> dict[str, float]:
        """`accuracy` in held-out questions, written by hand; `valid`: the share of sound questions on held-out
        passages. Choices are the answers to other questions."""
        rng = random.Random("held out")
        held_out = [self.held_out.passage(i % len(self.held_out)) for i in range(n)]
        read = [self.passages.artifact(passage, rng) for passage in held_out]
        solved = await self._play(arena, "solve", self._exam()[:n], f"{label}/solve")
        proposed = await self._play(arena, "proposal", read, f"{label}/proposal")
        return {
            "accuracy": fmean([float(rollout.extras.get("right", False)) for rollout in solved] or [0.0]),
            "valid": fmean([rollout.extras.get("fault", "") is None for rollout in proposed] or [0.0]),
        }

    def _exam(self) -> list[dict[str, Any]]:
        if not self.choices:
            return self.passages.exam
        rng, every = random.Random("choices"), [asked["answers"][0] for asked in self.passages.exam]
        return [
            asked | {"choices": choices(asked["answers"], every, self.choices, rng)} for asked in self.passages.exam
        ]

    async def _play(self, arena: Arena, kind: str, artifacts: list[Any], label: str) -> list[Rollout]:
        requests = [EpisodeRequest(kind, artifact, is_trainable=False) for artifact in artifacts]
        return [result.rollout for result in await arena.generate_rollouts(requests, label=label)]
