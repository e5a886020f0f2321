"""A terminal that goes away: found out, and let go of, so that leaving still works; and one that is typed on fast.

Textual's driver writes from a thread that dies of the first failed write; a bounded queue then fills, and the app
waits for ever on its way out. And it is 0.1 s before it takes an esc for one: a key that comes sooner makes
it alt, and both are lost. `sturdy` gives a driver that outlives its terminal and hears esc in time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import sys
import termios
from codecs import getincrementaldecoder
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from textual.driver import Driver

STANDARD = (0, 1, 2)

ESC = "\x1b"

ESCAPE, ESCAPE_AFAR = 0.02, 0.05
"""Seconds without another key after which esc is a key of its own, and through ssh; `ESCDELAY`, in milliseconds,
says otherwise. A terminal writes a sequence at once, and it is read at once however late; only on its way through a
network may it be parted, and a sequence taken for esc and letters does what nobody asked for."""

WAKE = 0.1
"""Seconds between two looks at whether the app has ended."""


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
    from textual import constants
    from textual._xterm_parser import XTermParser
    from textual.drivers.linux_driver import LinuxDriver

    if "ESCDELAY" not in os.environ:
        delay = ESCAPE_AFAR if "SSH_CONNECTION" in os.environ else ESCAPE
        setattr(constants, "ESCAPE_DELAY", delay)  # noqa: B010  it is said to be final
    if base is not LinuxDriver:
        return base

    class SturdyDriver(LinuxDriver):
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options)  # type: ignore[arg-type]
            self._file = Outlet(self._file)  # type: ignore[assignment]

        def _get_terminal_size(self) -> tuple[int, int]:
            """The terminal's own. `COLUMNS` and `LINES` don't follow it; a parent that uses readline sets them."""
            for descriptor in (self.fileno, *descriptors()):
                with contextlib.suppress(OSError):
                    columns, lines = os.get_terminal_size(descriptor)
                    if columns and lines:
                        return columns, lines
            return super()._get_terminal_size()

        def run_input_thread(self) -> None:
            parser, decode = XTermParser(self._debug), getincrementaldecoder("utf-8")("replace").decode
            text = ""
            try:
                while not self.exit_event.is_set():
                    wait = constants.ESCAPE_DELAY if text.endswith(ESC) else WAKE
                    if select.select([self.fileno], [], [], wait)[0]:
                        if not (data := os.read(self.fileno, 4096)):
                            break  # nobody will ever type again
                        text = decode(data)
                        found = parser.feed(text) if text else ()
                    else:
                        text, found = "", parser.tick()
                    for message in found:
                        self.process_message(message)
            except OSError:
                # nothing more can be read: the app looks after a terminal that hung up
                if not hung_up(self.fileno):
                    raise

    return SturdyDriver
