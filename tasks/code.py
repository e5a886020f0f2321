"""Code: a role writes a function, tests run it. Reinforcement learning from a verifiable reward, as a cascade.

Each stage is dearer than the one before, and only what passes reaches the next: is there exactly one piece of code,
does it name the function, and do the tests pass, which run in the sandbox. Samples of one problem are compared with
each other (GRPO); rewards from tests are those of CodeRL (arXiv 2207.01780) and DeepSeek-R1 (arXiv 2501.12948).

Known to go wrong: whoever lets the code report its own success pays for reports. Here tests are inputs alone; what
comes back are values, compared in this process with those of a reference. A function that always returns True
passes half of the tests of a yes-or-no question, so what the best constant passes is taken off the share. And what
tests don't ask isn't taught: a function may be wrong elsewhere.
"""

from __future__ import annotations

import math
import random
import re
from statistics import fmean
from typing import Annotated, Any, Literal

from engine import (
    Arena,
    ArtifactStore,
    Between,
    Count,
    EpisodeRequest,
    EpisodeState,
    Limits,
    Message,
    Role,
    Rollout,
    Rubric,
    SingleTurnEpisode,
    Task,
    call_python,
    same_value,
)
from tasks.coding import PROBLEMS, SHOWN, Problem

HELD_OUT = 0.3
"""The share of problems kept for evaluation, the same whatever the seed."""
FENCE = re.compile(r"^```[ \t]*(\w*)[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
PROMPT = "You write Python. Answer with one code block that holds the whole function, and nothing else."


def asked(problem: Problem) -> Message:
    task = f"Write the function\n\n{problem.signature}\n\n{problem.statement}\nFor example, {problem.example}"
    return {"role": "user", "content": task}


def worked(problem: Problem) -> list[Message]:
    """A problem and its reference, as turns that are shown."""
    return [asked(problem), {"role": "assistant", "content": f"```python\n{problem.source}```"}]


def read_code(reply: str) -> str | None:
    """The one fenced block of a reply, or all of a reply without fences; None if it has several, or half of one."""
    if "```" not in reply:
        return reply.strip() or None
    if reply.count("```") != 2:
        return None
    blocks = FENCE.findall(reply)
    if len(blocks) != 1 or blocks[0][0].lower() not in ("", "python", "python3", "py"):
        return None
    return blocks[0][1].strip() or None


def share(rollout: Rollout, arena: Arena) -> dict[str, float]:
    """Of the tests that the best constant answer doesn't pass, the share that the code does."""
    passed, lucky = sum(rollout.extras["passed"]), rollout.extras["lucky"]
    return {"Coder": max(0, passed - lucky) / (len(rollout.extras["passed"]) - lucky)}


def solved(rollout: Rollout, arena: Arena) -> dict[str, float]:
    """1 if every test passes, else 0."""
    return {"Coder": float(all(rollout.extras["passed"]))}


class Write(SingleTurnEpisode):
    """One function, written and tested. The artifact is the problem's name."""

    role = "Coder"

    def __init__(self, rubric: Rubric, examples: int, tests: int, limits: Limits, *, greedy: bool = False) -> None:
        super().__init__(rubric)
        self.problems = {problem.name: problem for problems in PROBLEMS.values() for problem in problems}
        self.shown = [turn for problem in SHOWN[:examples] for turn in worked(problem)]
        self.tests, self.limits = tests, limits
        self.settings = {"temperature": 0.0} if greedy else {}

    def prompt(self, artifact: Any) -> list[Message]:
        return [*self.shown, asked(self.problems[artifact])]

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        problem = self.problems[artifact]
        reply = await self.call_model(self.role, self.prompt(artifact), arena, **self.settings)
        code, tests = read_code(reply.text), problem.tests[: self.tests]
        state.turns[-1].illegal = code is None
        state.data = {"read": code is not None, "passed": [False] * len(tests), "lucky": problem.lucky(tests)}
        if code is not None and problem.name in code:
            calls = [("solution", problem.name, arguments) for arguments in tests]
            outcomes = await call_python({"solution.py": code}, calls, self.limits)
            state.data["passed"] = [
                not outcome.error and same_value(problem.expected(arguments), outcome.value)
                for arguments, outcome in zip(tests, outcomes, strict=True)
            ]
            state.data["errors"] = [f"{outcome.error}: {outcome.says}" for outcome in outcomes if outcome.error][:3]
        return state

    def get_extras(self, state: EpisodeState) -> dict[str, Any]:
        return state.data


class Code(Task):
    """Options: which `problems`; `samples` of each in a step; worked `examples` before it; at most so many `tests`;
    `reward` by the share of tests passed or for all of them; `seconds` of computing and `megabytes` of memory for
    all tests of a reply."""

    def __init__(
        self,
        *,
        problems: Literal["easy", "usual", "both"] = "usual",
        samples: Count = 8,
        examples: Annotated[int, Between(0, len(SHOWN))] = 1,
        tests: Annotated[int, Between(4, 100)] = 100,
        reward: Literal["share", "all"] = "share",
        seconds: Annotated[int, Between(1, 60)] = 2,
        megabytes: Annotated[int, Between(64, 16_000)] = 256,
    ) -> None:
        self.samples, self.examples, self.tests = samples, examples, tests
        self.rubric = Rubric([share if reward == "share" else solved])
        self.limits = Limits(cpu=seconds, seconds=10.0 * seconds, memory=megabytes * 1_000_000)
        self.held_out: list[str] = []
        self.train: list[str] = []
        for kind in PROBLEMS if problems == "both" else (problems,):
            names = [problem.name for problem in PROBLEMS[kind]]
            kept = random.Random("held out").sample(names, int(HELD_OUT * len(names)))
            self.held_out += kept
            self.train += [name for name in names if name not in kept]

    def setup(self, arena: Arena) -> None:
        arena.add_role(Role("Coder", system_prompt=PROMPT, max_tokens=256))
        arena.add_episode("write", Write(self.rubric, self.examples, self.tests, self.limits))
        arena.add_episode("exam", Write(self.rubric, self.examples, self.tests, self.limits, greedy=True))
        arena.add_store("problems", ArtifactStore(self.train, seed=arena.seed))

    def requests(self, arena: Arena, n: int) -> list[EpisodeRequest]:
        """Each problem `samples` times; the last one less often where `n` isn't a multiple."""
        problems = arena.stores["problems"].sample(math.ceil(n / self.samples))
        return [EpisodeRequest("write", problem.data) for problem in problems for _ in range(self.samples)][:n]

    async def evaluate(self, arena: Arena, n: int, label: str) -> dict[str, float]:
        """Of held-out problems, greedily: `solved` altogether, `pass_rate` of tests, `read` as code at all."""
        requests = [EpisodeRequest("exam", name, is_trainable=False) for name in self.held_out[:n]]
        results = await arena.generate_rollouts(requests, label=label)
        seen = [result.rollout.extras for result in results if result.rollout.error is None]
        return {
            "solved": fmean([float(all(extras["passed"])) for extras in seen] or [0.0]),
            "pass_rate": fmean([fmean(extras["passed"]) for extras in seen] or [0.0]),
            "read": fmean([float(extras["read"]) for extras in seen] or [0.0]),
        }
