"""What the app remembers from one day to the next: theme, sizes of panes, whether notices are wanted."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

FILE = "app.json"


class Memory:
    """Values by name, kept in a file; without one they are forgotten with the app.

    A file that can't be read counts as none, and one that can't be written costs only the memory: nobody is kept
    from work by a size that was not remembered.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self._values: dict[str, object] = {}
        if file is not None:
            with contextlib.suppress(OSError, ValueError):
                found = json.loads(file.read_text())
                self._values = found if isinstance(found, dict) else {}

    def text(self, name: str, otherwise: str) -> str:
        value = self._values.get(name)
        return value if isinstance(value, str) else otherwise

    def flag(self, name: str, otherwise: bool) -> bool:
        value = self._values.get(name)
        return value if isinstance(value, bool) else otherwise

    def sizes(self, name: str) -> dict[str, float]:
        """Shares of the screen between 0 and 1, by what they are of."""
        value = self._values.get(name)
        if not isinstance(value, dict):
            return {}
        return {key: float(size) for key, size in value.items() if isinstance(size, int | float) and 0 < size < 1}

    def keep(self, name: str, value: object) -> None:
        if self._values.get(name) == value:
            return
        self._values[name] = value
        if self.file is not None:
            draft = self.file.with_suffix(f".{os.getpid()}")
            try:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                draft.write_text(json.dumps(self._values, indent=1))
                draft.replace(self.file)
            except OSError:
                with contextlib.suppress(OSError):
                    draft.unlink(missing_ok=True)


def path() -> Path:
    """The user's file. It need not exist."""
    from platformdirs import user_state_path

    return user_state_path("selfplay-tui") / FILE
