"""A terminal that goes away: found out, and let go of, so that leaving still works.

Textual's driver writes from a thread that dies of the first failed write; a bounded queue then fills, and the app
waits for ever on its way out. `sturdy` gives a driver that outlives its terminal.
"""

from __future__ import annotations

import errno
import os
import sys
import termios
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from textual.driver import Driver

STANDARD = (0, 1, 2)


def descriptors() -> set[int]:
    """Those that may be a terminal; a supervised app draws on one of its own."""
    return {*STANDARD, *([sys.__stderr__.fileno()] if sys.__stderr__ is not None else [])}


def hung_up(descriptor: int) -> bool:
    """Whether `descriptor` is a terminal whose other end was closed."""
    try:
        termios.tcgetattr(descriptor)
    except (termios.error, OSError) as error:
        return error.args[0] in (errno.EIO, errno.ENXIO)
    return False


def let_go() -> bool:
    """Points standard streams that hung up at nothing, so that the last words written to them harm nobody.

    Returns whether there was one.
    """
    gone = [descriptor for descriptor in descriptors() if hung_up(descriptor)]
    if gone:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in gone:
            os.dup2(nothing, descriptor)
        os.close(nothing)
    return bool(gone)


class Outlet:
    """A text stream that takes what it is given even when nobody is left to read it."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            self._end()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            self._end()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def _end(self) -> None:
        """The other end is gone: the app finds out by itself, and until then words go nowhere."""
        self._stream = open(os.devnull, "w")  # noqa: SIM115  it lasts as long as the process


def sturdy(base: type[Driver]) -> type[Driver]:
    """The driver for a real terminal made to outlive it; any other driver as it is."""
    from textual.drivers.linux_driver import LinuxDriver

    if base is not LinuxDriver:
        return base

    class SturdyDriver(LinuxDriver):
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options)  # type: ignore[arg-type]
            self._file = Outlet(self._file)  # type: ignore[assignment]

        def run_input_thread(self) -> None:
            try:
                super().run_input_thread()
            except OSError:
                # nothing more can be read: the app looks after a terminal that hung up
                if not hung_up(self.fileno):
                    raise

    return SturdyDriver
