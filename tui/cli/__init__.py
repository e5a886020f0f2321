"""The command line. Imports Textual only when a screen opens, and MLX only when a model is needed."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    gc.disable()  # of what is made until a command works nothing could go; to look for it takes a tenth of the time
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would read what each package says of itself
    try:
        from tui.cli.dispatch import dispatch

        return dispatch(argv)
    finally:
        gc.enable()
