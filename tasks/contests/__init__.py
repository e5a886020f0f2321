"""What contests have in common: prompts, candidates for them, and who decides between two. No task itself.

Decided is by a judge who compares, or by a rule: which of some numbers is the largest (or smallest), where a reply
that isn't one of them loses to any that is.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

from engine import (
    Arena,
    EpisodeState,
    GenerateResult,
    Judge,
    Judgement,
    SingleTurnEpisode,
    hold_out,
    read_lines,
)
from tasks.topics.prompts import PROMPTS

WRITER = "Writer"
NUMBER = re.compile(r"\d+")
RULES: dict[str, Callable[[int], int]] = {"largest": int, "smallest": lambda number: -number}
"""How much a number is worth."""
NUMBERS, PROBLEMS, HELD_OUT = 4, 2000, 100
"""Numbers of a problem; problems to train on, and held out."""


def system_prompt(decided_by: str) -> str:
    if decided_by in RULES:
        return f"You are given some numbers. Reply with the {decided_by} of them and nothing else, such as 42."
    return "Do what you are asked, well and in at most 80 words."


def problems(decided_by: str, prompts: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Artifacts to train on, and held-out ones. `prompts`: a file with one a line, for a judge."""
    if decided_by not in RULES:
        train, held_out = hold_out(read_lines(prompts, "prompt") if prompts else PROMPTS)
        return [{"prompt": prompt} for prompt in train], [{"prompt": prompt} for prompt in held_out]
    rng, found = random.Random("numbers"), {}
    while len(found) < HELD_OUT + PROBLEMS:
        numbers = rng.sample(range(10, 100), NUMBERS)
        found.setdefault(frozenset(numbers), {"prompt": " ".join(map(str, numbers))})  # told apart by their numbers
    made = list(found.values())
    return made[HELD_OUT:], made[:HELD_OUT]


class Candidate(SingleTurnEpisode):
    """One reply to a prompt. It is worth something beside others only, so whoever holds the contest scores it."""

    role = WRITER

    def prompt(self, artifact: Any) -> str:
        return artifact["prompt"]

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        reply = await self.call_model(WRITER, artifact["prompt"], arena, legal=NUMBER.findall(artifact["prompt"]))
        state.data["reply"] = reply.text
        return state


class Referee:
    """Decides between two replies to a prompt."""

    def __init__(self, decided_by: str, judge: Judge) -> None:
        self.worth, self.judge = RULES.get(decided_by), judge

    def replies(self, prompt: str, results: list[GenerateResult]) -> list[str]:
        """What the candidates wrote. A reply that is none is marked as illegal; of one that failed it is empty."""
        for result in results:
            for turn in result.rollout.turns:
                turn.illegal = self.worth_of(prompt, turn.completion.text) is None
        return [result.rollout.extras.get("reply", "") for result in results]

    async def compare(self, arena: Arena, prompt: str, first: str, second: str) -> Judgement:
        """1 if the first is better, 0 if the second is, 0.5 if neither, None for no verdict. A reply that says
        nothing, or only what the prompt says, loses to one that does; between two of these neither is better."""
        worths = [self.worth_of(prompt, reply) for reply in (first, second)]
        if self.worth is None and None not in worths and first != second:
            return await self.judge.compare(arena, prompt, first, second)
        one, other = (float("-inf") if worth is None else worth for worth in worths)
        return Judgement("rule", 0.5 if one == other else float(one > other))

    def worth_of(self, prompt: str, reply: str) -> float | None:
        """What a rule can say of a reply alone: by the numbers, or that it is one at all; None that it is none."""
        if self.worth is None:
            return None if _bare(reply) in ("", _bare(prompt)) else 0.0
        named = set(NUMBER.findall(reply))
        return self.worth(int(named.pop())) if len(named) == 1 and named <= set(NUMBER.findall(prompt)) else None

    def is_best(self, prompt: str, reply: str) -> bool:
        """Whether no other of the numbers would have been worth more."""
        worths = [self.worth_of(prompt, number) for number in NUMBER.findall(prompt)]
        return self.worth_of(prompt, reply) == max(worth for worth in worths if worth is not None)


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))
