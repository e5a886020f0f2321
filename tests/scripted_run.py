"""A run without a model, to drive the command line with: it plays back what it is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

from engine.config import parse
from engine.events import CheckpointSaved, EvaluationFinished, EventStream, RunState, StateChanged, StepFinished
from engine.progress import Evaluations, Totals
from engine.status import Status

CONFIG = parse({"title": "Nim", "task": {"name": "nim"}, "eval": {"metric": "win_vs_random"}}, "")


class ScriptedRun:
    """The interface of `engine.run.Run` that a headless run uses. Each step takes `pace` seconds."""

    def __init__(
        self, folder: Path, steps: int = 3, pace: float = 0.0, fails: str = "", loss: float = 0.25
    ) -> None:
        self.folder, self.name = folder, folder.name
        self.config = CONFIG.model_copy(update={"run": CONFIG.run.model_copy(update={"steps": steps})})
        self.state, self.reason = RunState.LOADING, ""
        self.evaluations = Evaluations("win_vs_random", "max")
        self.checkpoint_path: Path | None = None
        self.totals = Totals(tokens_generated=4096, tokens_trained=8192, illegal=2, seconds=1.5)
        self.step = 0
        self._pace, self._fails, self._loss = pace, fails, loss
        self._streams: list[EventStream] = []
        self._stop = asyncio.Event()

    def watch(self, *, live: bool = True) -> EventStream:
        self._streams.append(EventStream(live=live))
        return self._streams[-1]

    def unwatch(self, stream: EventStream) -> None:
        self._streams.remove(stream)

    async def start(self) -> None:
        self._become(RunState.RUNNING)
        self._evaluate(0.5)
        while self.step < self.config.run.steps and not self._stop.is_set():
            try:
                await asyncio.wait_for(self._stop.wait(), self._pace)
            except TimeoutError:
                self.step += 1
                self._tell(StepFinished(self.step, {"reward/First": 0.125, "loss": self._loss}))
                if self._fails:
                    self._become(RunState.FAILED, self._fails)
                    return
        if not self._stop.is_set():
            self._evaluate(0.75)
        self.checkpoint_path = self.folder / "checkpoints" / f"step-{self.step:06}"
        self._tell(CheckpointSaved(self.step, str(self.checkpoint_path), "final"))
        self._become(RunState.STOPPED if self._stop.is_set() else RunState.FINISHED)

    async def stop(self) -> None:
        self._stop.set()

    async def set(self, key: str, value: str) -> int:
        assert key == "run.steps"
        self.config = self.config.model_copy(
            update={"run": self.config.run.model_copy(update={"steps": int(value)})}
        )
        return 1

    def status(self) -> Status:
        totals = self.totals
        return Status(
            self.state, self.step, self.config.run.steps, self.step, totals.tokens_generated, totals.tokens_trained,
            1200.0, 0.0, 0, totals.stale, 0, totals.illegal, totals.failed, totals.skipped, totals.seconds, 0,
        )  # fmt: skip

    def _evaluate(self, win: float) -> None:
        metrics = {"win_vs_random": win, "draw_vs_random": float("nan")}
        self._tell(EvaluationFinished(self.step, metrics, self.evaluations.add(self.step, metrics)))

    def _become(self, state: RunState, reason: str = "") -> None:
        self.state, self.reason = state, reason
        self._tell(StateChanged(state, reason))

    def _tell(self, event) -> None:
        for stream in self._streams:
            stream.put(event)
