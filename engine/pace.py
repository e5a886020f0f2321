"""Whether a run goes on: its state, what a pause holds, and how long it has been at work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from engine.events import RunState, StateChanged
from engine.humans import Humans
from engine.inference.device import Device
from engine.progress import Totals


class Pace:
    """loading → running ⇄ paused → finished, stopped or failed; who does the work asks it when to go on."""

    def __init__(self, totals: Totals, humans: Humans, tell: Callable[[StateChanged], None]) -> None:
        self.state = RunState.LOADING
        self.reason = ""
        self.stopping = False
        """Whether it is to end: nothing is waited for any more."""
        self._totals, self._humans, self._tell = totals, humans, tell
        self._device: Device | None = None
        self._clock: float | None = None
        self._going = asyncio.Event()
        self._going.set()
        self._hold_at: int | None = None
        """The step after which it pauses by itself."""

    @property
    def attended(self) -> bool:
        """Whether a person is there, who may end a pause."""
        return self._humans.attended

    @property
    def seconds(self) -> float:
        """Spent running, pauses left out, over all sittings: the clock by which steps are timed too."""
        return self._totals.seconds + (time.monotonic() - self._clock if self._clock is not None else 0.0)

    def become(self, state: RunState, reason: str = "") -> None:
        self.state, self.reason = state, reason
        self._tell(StateChanged(state, reason))

    def begin(self, device: Device) -> None:
        """All is loaded; a pause holds `device` from now on."""
        self._device = device
        self.become(RunState.RUNNING)
        self._clock = time.monotonic()

    def pause(self, reason: str = "") -> None:
        """Hold everything within one tick of the device; of a pause already, tell another reason."""
        if self.state is RunState.PAUSED and reason:
            self.become(RunState.PAUSED, reason)
        if self.state is RunState.RUNNING:
            self._going.clear()
            self._humans.pause()
            if self._device:
                self._device.pause(self._held)
            self.become(RunState.PAUSED, reason)

    def resume(self, until: int | None = None) -> None:
        """Go on exactly where `pause` held; `until` a step is done, if given."""
        self._hold_at = until
        if self.state is RunState.PAUSED:
            self.become(RunState.RUNNING)
            if self._clock is None:
                self._clock = time.monotonic()
            self._humans.resume()
            if self._device:
                self._device.resume()
            self._going.set()

    async def going(self) -> None:
        """Returns as soon as nothing holds the run."""
        await self._going.wait()

    async def after(self, step: int) -> None:
        """Between this step and the next: pauses if it was to go on until here, and waits."""
        if self._hold_at is not None and step >= self._hold_at:
            self.pause()
        await self.going()

    def _held(self) -> None:
        """The tick that a pause found under way is over: until then the run was at work, and its time counts."""
        if self.state is RunState.PAUSED:
            self.stop_clock()

    def stop_clock(self) -> None:
        self._totals.seconds, self._clock = self.seconds, None
