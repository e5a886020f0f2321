"""A terminal that goes away: found out, and let go of, so that leaving still works."""

from __future__ import annotations

import errno
import os
import termios

STANDARD = (0, 1, 2)


def hung_up(descriptor: int) -> bool:
    """Whether `descriptor` is a terminal whose other end was closed."""
    try:
        termios.tcgetattr(descriptor)
    except (termios.error, OSError) as error:
        return error.args[0] in (errno.EIO, errno.ENXIO)
    return False


def let_go() -> bool:
    """Points standard streams that hung up at nothing, so that the last words written to them don't block.

    Returns whether there was one.
    """
    gone = [descriptor for descriptor in STANDARD if hung_up(descriptor)]
    if gone:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in gone:
            os.dup2(nothing, descriptor)
        os.close(nothing)
    return bool(gone)
