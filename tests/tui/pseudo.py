"""A real pseudo-terminal with the app in it, driven from outside."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time


class Terminal:
    """A child on a pseudo-terminal of a size, and what it has written."""

    def __init__(self, command: list[str], columns: int, lines: int) -> None:
        self.began = time.perf_counter()
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
            os.execvp(command[0], command)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.written = 0
        self.output = bytearray()
        """The last of what was written."""

    def read(self, seconds: float) -> bytes:
        """What comes within `seconds`, as soon as something does."""
        ready, _, _ = select.select([self.master], [], [], max(seconds, 0.0))
        if not ready:
            return b""
        try:
            data = os.read(self.master, 1 << 16)
        except OSError:
            return b""
        self.written += len(data)
        self.output = (self.output + data)[-100_000:]
        return data

    def until(self, text: str, seconds: float) -> float | None:
        """Seconds until `text` is written; None where it isn't in time."""
        began, kept, wanted = time.perf_counter(), b"", text.encode()
        while (left := seconds - (time.perf_counter() - began)) > 0:
            kept = kept[-200:] + self.read(left)
            if wanted in kept:
                return time.perf_counter() - began
        return None

    def drain(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            self.read(left)

    def key(self, data: bytes) -> None:
        os.write(self.master, data)

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def close(self) -> None:
        """The terminal's window is closed."""
        os.close(self.master)
        self.master = -1

    def end(self, seconds: float = 10.0) -> int:
        """Waits for it to end, reading on; its exit status. Kills and fails one that doesn't."""
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                if self.master >= 0:
                    self.drain(0.1)
                    self.close()
                return os.waitstatus_to_exitcode(status)
            if self.master >= 0:
                self.read(0.05)
            else:
                time.sleep(0.05)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError(f"it had not ended after {seconds} s")
