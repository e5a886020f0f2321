"""A run without a model: a scripted, seeded stream of the events a real one tells."""

from __future__ import annotations

import asyncio
import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from engine import config as configuration
from engine.config import Config, EvalConfig, RewardConfig, RoleConfig, RunConfig, TaskConfig
from engine.events import (
    CheckpointSaved,
    CreditAssigned,
    EditApplied,
    EpisodeFinished,
    EpisodeStarted,
    EvaluationFinished,
    Event,
    EventStream,
    Notice,
    RunState,
    StateChanged,
    StepFinished,
    TokensSampled,
    TurnFinished,
    TurnStarted,
)
from engine.keeping import Kept
from engine.reading.tracing import Trace
from engine.steering.edits import Setting
from engine.types import Completion, GenerateResult, Message, Question, Role, Rollout, RunError, Turn
from tests.tui.fake_record import FakeRecord, credited, learn, logprob
from tests.tui.fake_table import FakeTable

SETTINGS = (
    "train.learning_rate",
    "train.schedule",
    "train.clip_low",
    "train.clip_high",
    "train.kl",
    "train.entropy",
    "rewards.outcome.weight",
    "rewards.illegal_move.weight",
    "roles.First.temperature",
    "roles.First.max_tokens",
    "roles.Second.temperature",
    "roles.Second.max_tokens",
    "run.steps",
    "run.episodes_per_step",
    "eval.every",
)

PIECES = re.compile(r"\s*\S{1,4}|\s+", re.DOTALL)


class Words:
    """A vocabulary that grows with what is said; token 7 is the eighth piece ever met."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._ids: dict[str, int] = {}

    def encode(self, text: str) -> list[int]:
        tokens = []
        for piece in PIECES.findall(text):
            if piece not in self._ids:
                self._ids[piece] = len(self.pieces)
                self.pieces.append(piece)
            tokens.append(self._ids[piece])
        return tokens

    def decode(self, tokens: list[int]) -> str:
        return "".join(self.pieces[token] for token in tokens)


@dataclass
class FakeStatus:
    step: int = 0
    steps: int = 100
    version: int = 0
    tokens_generated: int = 0
    tokens_trained: int = 0
    generation_rate: float = 5120.0
    training_rate: float = 3380.0
    memory: int = 1_240_000_000
    stale: int = 0
    queued: int = 3
    illegal: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    live: int = 0


@dataclass
class Playing:
    """An episode under way: what is left to say of the turn being spoken."""

    rollout: Rollout
    sticks: int
    is_trainable: bool
    left: list[int] = field(default_factory=list)
    spoken: list[int] = field(default_factory=list)
    illegal: bool = False


def nim_reply(rng: random.Random, sticks: int, skill: float) -> tuple[str, int]:
    """A move and what it takes: the better the policy, the more often a multiple of four is left."""
    wanted = sticks % 4
    take = wanted if wanted and rng.random() < skill else rng.randint(1, min(3, max(sticks, 1)))
    if rng.random() < 0.02 * (1 - skill):
        return "[7]", 0
    return f"[{take}]", take


def talk(rng: random.Random, sticks: int, skill: float) -> tuple[str, int]:
    """The same game by someone who thinks aloud."""
    move, take = nim_reply(rng, sticks, skill)
    thoughts = [
        f"There are {sticks} sticks on the table.",
        f"If I take {take}, my opponent faces {sticks - take}.",
        "A multiple of four loses against someone who knows.",
        "They may not have seen it yet, so the plain move will do.",
        "Leaving [four] would be best, I think.",
    ]
    chosen = rng.sample(thoughts, rng.randint(2, 4))
    return " ".join(chosen) + f"\n\nMy move: {move}", take


class FakeRun:
    """Implements `tui.interface.RunLike`. `advance` plays ticks by hand; `start` plays them by the clock."""

    def __init__(
        self,
        *,
        seed: int = 0,
        episodes: int = 64,
        steps: int = 100,
        reply: Callable[[random.Random, int, float], tuple[str, int]] = nim_reply,
        tokens_per_tick: int = 1,
        seconds_per_tick: float = 0.05,
        name: str = "nim-3",
        fails_at: int | None = None,
        history: list[Event] | None = None,
    ) -> None:
        self.name = name
        self.folder = Path("runs") / name
        self.config = Config(
            title="Nim",
            teaches="A tiny model finds out that one must leave a multiple of four.",
            task=TaskConfig(name="nim"),
            run=RunConfig(steps=steps, episodes_per_step=episodes),
            eval=EvalConfig(every=10, metric="win_vs_random"),
            rewards={"outcome": RewardConfig(), "illegal_move": RewardConfig(weight=0.5)},
            roles={role: RoleConfig(temperature=1.0, max_tokens=64) for role in ("First", "Second")},
        )
        self.state = RunState.LOADING
        self.reason = ""
        prompt = "You play Nim. Take one to three sticks: [1], [2] or [3]. Who takes the last wins."
        self.roles = {role: Role(role, prompt) for role in ("First", "Second")}
        self.words = Words()
        self.calls: list[str] = []
        self.questions: list[Question] = []
        self.answers: dict[int, str | None] = {}
        self.attended = False
        self.table = FakeTable(self)
        self.record = FakeRecord()
        self._history = history or []
        self._rng = random.Random(seed)
        self._reply = reply
        self._episodes = episodes
        self._tokens = tokens_per_tick
        self._seconds = seconds_per_tick
        self._fails_at = fails_at
        self._streams: list[EventStream] = []
        self._playing: list[Playing] = []
        self._results: list[GenerateResult] = []
        self._played = 0
        self._edits: dict[str, int] = {"First": 0, "Second": 0}
        self._told: list[EditApplied] = []
        self._saved: list[tuple[int, str]] = []
        self.origin = ""
        self._status = FakeStatus(steps=steps)
        self._ended = asyncio.Event()
        self._to_evaluate = 0
        self._evaluating: list[Playing] = []

    # RunLike

    def history(self) -> list[Event]:
        return self._history

    def watch(self) -> EventStream:
        stream = EventStream()
        self._streams.append(stream)
        return stream

    def unwatch(self, stream: EventStream) -> None:
        self._streams.remove(stream)

    def decode(self, tokens: list[int]) -> str:
        return self.words.decode(tokens)

    async def trace(self, rollout_id: str) -> Trace | None:
        return self.record.trace(rollout_id)

    def status(self) -> FakeStatus:
        self._status.live = len(self._playing) + len(self._evaluating)
        return self._status

    async def start(self) -> None:
        self.calls.append("start")
        if self.state is RunState.LOADING:
            self.begin()
        try:
            while self.state in (RunState.RUNNING, RunState.PAUSED):
                if self._seconds and self.state is RunState.RUNNING:
                    self.advance()
                await asyncio.sleep(self._seconds or 0.02)
        finally:
            self._ended.set()

    def pause(self) -> None:
        self.calls.append("pause")
        self._become(RunState.PAUSED)

    def resume(self) -> None:
        self.calls.append("resume")
        self._become(RunState.RUNNING)

    async def stop(self) -> None:
        self.calls.append("stop")
        if "start" not in self.calls:
            return
        if self.state in (RunState.RUNNING, RunState.PAUSED, RunState.LOADING):
            self._become(RunState.STOPPED)
        await self._ended.wait()

    async def checkpoint(self) -> Path:
        self.calls.append("checkpoint")
        return self._save("manual")

    async def edit_role(self, role: str, prompt: str) -> int:
        before = self.roles[role].system_prompt
        self.calls.append(f"edit {role}")
        self.roles[role].system_prompt = prompt
        self._edits[role] = len(self._told) + 1
        return self._tell_edit(f"role {role}", before, prompt)

    async def set(self, key: str, value: str) -> int:
        after, before = configuration.set_value(self.config, key, value), configuration.value_text(self.config, key)
        self.calls.append(f"set {key}={value}")
        self.config = after
        return self._tell_edit(key, before, configuration.value_text(after, key))

    async def undo(self, number: int) -> int:
        edit = self._told[number - 1]
        if edit.target.startswith("role "):
            return await self.edit_role(edit.target.removeprefix("role "), edit.before)
        return await self.set(edit.target, edit.before)

    def _tell_edit(self, target: str, before: str, after: str) -> int:
        edit = EditApplied(len(self._told) + 1, self._status.step, target, before, after)
        self._told.append(edit)
        self.emit(edit)
        return edit.number

    def settings(self) -> list[Setting]:
        known = {name: configuration.key(name) for name in SETTINGS}
        return [
            Setting(name, configuration.value_text(self.config, name), key.wants, key.description, key.choices)
            for name, key in known.items()
        ]

    def checkpoints(self) -> list[Kept]:
        reasons: dict[int, list[str]] = {}
        for step, reason in self._saved:
            reasons.setdefault(step, []).append(reason)
        kept = [step for step, why in reasons.items() if why != ["auto"]] + list(reasons)[-2:]
        return [Kept(s, tuple(reasons[s]), self._place(s)) for s in sorted(set(kept), reverse=True)]

    def step_once(self) -> None:
        self.calls.append("step once")
        if self.state is not RunState.PAUSED:
            raise RunError(f"run {self.name} is {self.state}, not paused: pause it to go on by single steps")
        step = self._status.step
        self._become(RunState.RUNNING)
        while self._status.step == step:
            self._tick()
        if self.state is RunState.RUNNING:
            self._become(RunState.PAUSED)

    def answer(self, question: int, text: str | None) -> None:
        self.questions.remove(next(q for q in self.questions if q.id == question))
        self.answers[question] = text

    # The script

    def emit(self, event: Event) -> None:
        for stream in self._streams:
            stream.put(event)

    def begin(self) -> None:
        """Loaded: evaluates once, by numbers alone, and starts to play."""
        self._become(RunState.RUNNING)
        self._announce_evaluation()

    def fail(self, reason: str) -> None:
        self.reason = reason
        self._become(RunState.FAILED, reason)

    def advance(self, ticks: int = 1) -> None:
        for _ in range(ticks):
            self._tick()

    @property
    def skill(self) -> float:
        """How often the policy plays right, rising with the steps."""
        return 0.95 / (1 + math.exp(-(self._status.step - 25) / 9))

    def _tick(self) -> None:
        status = self._status
        status.seconds += self._seconds
        while len(self._playing) < self._episodes:
            self._start(str(self._played), True)
            self._played += 1
        if self._to_evaluate:
            self._start(f"eval-{status.step}/{24 - self._to_evaluate}", False)
            self._to_evaluate -= 1
        for playing in [*self._playing, *self._evaluating]:
            self._speak(playing)
        if len(self._results) >= self._episodes:
            self._step()

    def _start(self, rollout_id: str, is_trainable: bool) -> None:
        rollout = Rollout(rollout_id, "nim", edits=dict(self._edits))
        rollout.players = {"First": "policy", "Second": "policy" if is_trainable else "random"}
        playing = Playing(rollout, self._rng.randint(8, 20), is_trainable)
        (self._playing if is_trainable else self._evaluating).append(playing)
        self.emit(EpisodeStarted(rollout_id, "nim", None, is_trainable, dict(rollout.players), dict(self._edits)))
        self._ask(playing)

    def _ask(self, playing: Playing) -> None:
        rollout = playing.rollout
        index = len(rollout.turns)
        role = "First" if index % 2 == 0 else "Second"
        messages: list[Message] = [
            {"role": "system", "content": self.roles[role].system_prompt},
            {"role": "user", "content": f"{playing.sticks} sticks are left."},
        ]
        text, take = self._reply(self._rng, playing.sticks, self.skill)
        playing.left = self.words.encode(text)
        playing.spoken = []
        playing.illegal = take == 0
        player = rollout.players[role]
        completion = Completion(text, player=player)
        rollout.turns.append(Turn(role, index, messages, completion, illegal=playing.illegal))
        playing.sticks -= take
        self.emit(TurnStarted(rollout.id, index, role, player, messages))

    def _speak(self, playing: Playing) -> None:
        many = self._rng.randint(0, 2 * self._tokens)
        said, playing.left = playing.left[:many], playing.left[many:]
        rollout, turn = playing.rollout, playing.rollout.turns[-1]
        if said:
            playing.spoken += said
            self._status.tokens_generated += len(said)
            self.emit(TokensSampled(rollout.id, turn.index, said, [logprob(token) for token in said]))
        if playing.left:
            return
        completion = turn.completion
        completion.tokens, completion.versions = playing.spoken, [self._status.version] * len(playing.spoken)
        completion.logprobs = [logprob(token) for token in playing.spoken]
        self.emit(TurnFinished(rollout.id, turn.index, turn.role, completion.text, self._status.version, "stop"))
        if playing.illegal or playing.sticks <= 0:
            self._finish(playing)
        else:
            self._ask(playing)

    def _finish(self, playing: Playing) -> None:
        rollout = playing.rollout
        loser = rollout.turns[-1].role if playing.illegal else None
        winner = rollout.turns[-1].role
        for role in ("First", "Second"):
            won = -1.5 if role == loser else 0.5 if loser else 1.0 if role == winner else -1.0
            rollout.rewards[role] = won
        rollout.breakdown = {"outcome": dict(rollout.rewards)}
        rollout.weights = {"outcome": dict.fromkeys(rollout.rewards, 1.0)}
        result = GenerateResult(rollout, is_trainable=playing.is_trainable)
        self._status.illegal += playing.illegal
        if playing.is_trainable:
            self._playing.remove(playing)
            self._results.append(result)
        else:
            self._evaluating.remove(playing)
            self.record.add(self._status.step, [result], evaluation=True)
        self.emit(EpisodeFinished(result))

    def _step(self) -> None:
        status, results = self._status, self._results
        self._results = []
        turns = [turn for result in results for turn in result.rollout.turns]
        for result in results:
            for turn in result.rollout.turns:
                turn.credit = credited(result.rollout.rewards[turn.role], turn.role)
        self.emit(CreditAssigned(status.step + 1, results))
        learn(results)
        self.record.add(status.step + 1, results)
        status.step += 1
        status.version += 1
        noise = self._rng.gauss(0, 1)
        illegal = sum(turn.illegal for turn in turns)
        metrics = {
            "loss": 0.02 * noise - 0.05 * self.skill,
            "entropy": 1.05 - 0.8 * self.skill + 0.02 * noise,
            "grad_norm": 0.4 + 0.1 * abs(noise),
            "mismatch_mean": 0.00002,
            "lora_b_norm": 0.02 * status.step,
            "signal": 1.0,
            "illegal": float(illegal),
            "illegal_rate": illegal / max(len(turns), 1),
            "stale": 0.0,
            "unscored": 0.0,
        }
        self.emit(StepFinished(status.step, metrics))
        if status.step % 10 == 0:
            self._announce_evaluation()
            self._to_evaluate = 24
            self._save("best")
        else:
            self._save("auto")
        if self._fails_at == status.step:
            self.fail("the device thread ended: out of memory (asked for 14.2 GB, 8.0 GB there are)")
        elif status.step >= status.steps:
            self._become(RunState.FINISHED)

    def _announce_evaluation(self) -> None:
        step = self._status.step
        win = 0.5 + 0.42 * self.skill + self._rng.uniform(-0.02, 0.02)
        metrics = {"win_vs_random": win, "optimal_moves": 0.3 + 0.65 * self.skill}
        self.emit(EvaluationFinished(step, metrics, is_best=step > 0))

    def _save(self, reason: str) -> Path:
        path = self._place(self._status.step)
        self._saved.append((self._status.step, reason))
        self.emit(CheckpointSaved(self._status.step, str(path), reason))
        return path

    def _place(self, step: int) -> Path:
        return self.folder / "checkpoints" / f"step-{step:06d}"

    def _become(self, state: RunState, reason: str = "") -> None:
        self.state = state
        self.emit(StateChanged(state, reason))

    def notice(self, text: str, severity: str = "information") -> None:
        self.emit(Notice(text, severity))
