"""A client's other half, on the device thread."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING

from engine.inference.requests import Finished, Request, Tick
from engine.types import EngineError

if TYPE_CHECKING:  # these import MLX, which only the device thread may
    from engine.inference.batcher import Batcher
    from engine.inference.device import Device
    from engine.inference.prefix_cache import Stats


class Server:
    """A batcher, and when it may tick."""

    def __init__(
        self,
        device: Device,
        batcher: Batcher,
        lockstep: bool,
        deliver: Callable[[Tick], None],
        closed: Callable[[], None],
    ) -> None:
        self._device, self._batcher = device, batcher
        self._lockstep = lockstep
        self._deliver, self._closed = deliver, closed
        self._open = not lockstep

    def accept(self, requests: Iterable[Request], withdrawn: Iterable[int], *, forget: bool = False) -> None:
        """Take what the client sent, and go; first forget what isn't in flight, if a new set begins with it."""
        if forget:
            self._batcher.forget()
        refused = []
        for request in requests:
            try:
                self._batcher.add(request)
            except (KeyError, ValueError) as error:
                refused.append((request.id, error))
        for id in withdrawn:
            self._batcher.cancel(id)
        self._open = True
        self._report_failures(refused)

    def hold(self, player: str) -> None:
        """Begin none of a player's completions until `release`."""
        self._batcher.hold(player)

    def release(self, player: str) -> None:
        self._batcher.release(player)

    def drained(self, player: str, then: Callable[[], object]) -> Generator[None, None, None]:
        """Wait until nothing of a player is in flight, and call `then`."""
        while self._batcher.speaks(player):
            yield
        then()

    @property
    def stats(self) -> Stats:
        return self._batcher.stats

    def ready(self) -> bool:
        return self._open and len(self._batcher) > 0

    def tick(self) -> None:
        tick = self._batcher.tick()
        if tick.finished and self._lockstep:
            self._open = False
        if tick.finished or tick.tokens:
            self._device.deliver(self._deliver, tick)

    def fail(self, error: Exception) -> None:
        failure = EngineError(f"generating failed: {type(error).__name__}: {error}")
        failure.__cause__ = error
        self._report_failures([(id, failure) for id in self._batcher.clear()])

    def close(self) -> None:
        self._batcher.clear()
        self._device.deliver(self._closed)

    def _report_failures(self, failures: list[tuple[int, Exception]]) -> None:
        if failures:
            self._open = not self._lockstep
            finished = [Finished(id, error=error) for id, error in failures]
            self._device.deliver(self._deliver, Tick(finished=finished))
