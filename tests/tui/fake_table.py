"""A table without a model: nim against a scripted player, who speaks when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

from engine.events import EpisodeFinished, EpisodeStarted, EventStream, TokensSampled, TurnFinished, TurnStarted
from engine.sitting.company import Opponent, Place
from engine.sitting.seats import Ask
from engine.types import Completion, GenerateResult, Message, Rollout, RunError, Turn

if TYPE_CHECKING:
    from tests.tui.fake import FakeRun

SECONDS = {"First": "Second", "Second": "First"}


class FakeSitting:
    """Nim with ten sticks. The other side takes one stick, in tokens of four letters: a token a `go_on`."""

    def __init__(
        self, run: FakeRun, number: int, task: str, roles: Collection[str], opponent: str, learnt: bool, sticks: int
    ) -> None:
        self.id, self.roles, self.opponent, self.learnt = f"person-{number}", tuple(roles), opponent, learnt
        self.stream = EventStream()
        self.asked: Ask | None = None
        self.result: GenerateResult | None = None
        self.error = ""
        self.over = False
        self.open = True
        self.free = False
        """Whether anything may be said."""
        self.said: list[str] = []
        self.asked_odds: list[str] = []
        self.reply = "[1]"
        self._run, self._sticks = run, sticks
        self._prefix = f"{task}/" if task else ""
        self._left: list[int] = []
        self._rollout = Rollout(f"{self.id}/0", f"{self._prefix}nim")

    def begin(self) -> None:
        self.stream.put(EpisodeStarted(self._rollout.id, self._rollout.episode_type, None, False, {}))
        self._next()

    def _next(self) -> None:
        index = len(self._rollout.turns)
        role = self._prefix + ("First", "Second")[index % 2]
        player = "person" if role in self.roles else self.opponent
        messages: list[Message] = [
            {"role": "system", "content": self._run.roles[role.removeprefix(self._prefix)].system_prompt},
            {"role": "user", "content": f"{self._sticks} sticks are left.\n" + "| " * self._sticks},
        ]
        self._rollout.turns.append(Turn(role, index, messages, Completion("", player=player)))
        self._rollout.players[role] = player
        self.stream.put(TurnStarted(self._rollout.id, index, role, player, messages))
        if player == "person":
            legal = () if self.free else tuple(f"[{n}]" for n in range(1, min(3, self._sticks) + 1))
            self.asked = Ask(self._rollout.id, index, role, messages, legal)
        else:
            self._left = self._run.words.encode(self.reply)

    def go_on(self) -> None:
        """The other side says a token more, and its turn ends with the last."""
        turn, token = self._rollout.turns[-1], self._left.pop(0)
        turn.completion.tokens.append(token)
        self.stream.put(TokensSampled(self._rollout.id, turn.index, [token], [-0.25]))
        if not self._left:
            self._say(self.reply, 1)

    def answer(self, text: str, *, anyway: bool = False) -> None:
        assert self.asked is not None
        if self.asked.legal and text not in self.asked.legal and not anyway:
            raise RunError(f"{text!r} isn't legal here")
        self.said.append(text)
        self.asked = None
        self._say(text, int(text.strip("[]")) if text.strip("[]").isdigit() else 1)

    def _say(self, text: str, take: int) -> None:
        turn = self._rollout.turns[-1]
        turn.completion.text = text
        turn.completion.versions = [3]
        self._sticks -= take
        self.stream.put(TurnFinished(self._rollout.id, turn.index, turn.role, text, 3, "stop"))
        if self._sticks > 0:
            self._next()
            return
        self._rollout.rewards = {turn.role: 1.0, self._prefix + SECONDS[turn.role.removeprefix(self._prefix)]: -1.0}
        self._rollout.breakdown = {"outcome": dict(self._rollout.rewards)}
        self.result = GenerateResult(self._rollout, is_trainable=self.learnt)
        self.stream.put(EpisodeFinished(self.result))
        self.over = True

    async def odds(self, player: str = "policy") -> dict[str, float]:
        self.asked_odds.append(player)
        assert self.asked is not None
        if not self.asked.legal:
            raise RunError("anything may be said here: there are no legal replies to weigh")
        shares = [0.5, 0.3, 0.15] if player == "policy" else [0.1, 0.2, 0.6]
        return dict(zip(self.asked.legal, shares, strict=False))

    def hears(self, episode_type: str) -> bool:
        return self.open

    async def leave(self) -> None:
        self.asked = None
        self.over = True


class FakeTable:
    """`loading` seconds pass before a first episode begins, where it isn't ready."""

    def __init__(self, run: FakeRun) -> None:
        self._run = run
        self.is_ready = True
        self.no_lesson = ""
        self.loading = 60.0
        self.sticks = 10
        self.sat: list[FakeSitting] = []
        self.settings: dict[str, object] = {}
        """What the next sittings are: `open`, `free`, what the other side's `reply` is, …"""
        self.tasks = [""]
        self.closed = 0

    def places(self) -> list[Place]:
        return [
            Place(task, task or "nim", tuple(f"{task}/{role}" if task else role for role in self._run.roles))
            for task in self.tasks
        ]

    def opponents(self) -> list[Opponent]:
        return [
            Opponent("policy", "as it learns"),
            Opponent("step-20", "checkpoint: auto"),
            Opponent("step-10", "checkpoint: best"),
            Opponent("base", "the bare model"),
        ]

    def decode(self, tokens: list[int]) -> str:
        return self._run.words.decode(tokens)

    async def sit(
        self, *, roles: Collection[str], task: str = "", opponent: str = "policy", learn: bool = False
    ) -> FakeSitting:
        if not self.is_ready:
            await asyncio.sleep(self.loading)
            self.is_ready = True
        sitting = FakeSitting(self._run, len(self.sat) + 1, task, roles, opponent, learn, self.sticks)
        for name, value in self.settings.items():
            setattr(sitting, name, value)
        self.sat.append(sitting)
        sitting.begin()
        return sitting

    async def close(self) -> None:
        self.closed += 1
