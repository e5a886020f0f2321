"""Episodes marked to be found again, in a small file beside the run."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from engine.folders import beside

FILE = "pins.json"


class PinError(Exception):
    """Pins that can't be read or kept: says where, and why."""


class Pins:
    """Episodes by id, each with the step it was played in. `home` is where they are kept of a run that can't be
    written to."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.file = beside(folder, FILE, home)
        self.steps: dict[str, int] = {}

    def load(self) -> None:
        """Raises `PinError` for a file that isn't one of ours; it is then set aside by the next change."""
        self.steps = {}
        try:
            self.steps = _read(self.file)
        except FileNotFoundError:
            return
        except OSError as error:
            raise PinError(f"{self.file}: {error.strerror or error}") from error
        except ValueError as error:
            aside = self._aside.name
            raise PinError(f"{self.file} holds no pins; it is kept as {aside} once you pin something") from error

    @property
    def _aside(self) -> Path:
        return self.file.with_suffix(".damaged")

    def toggle(self, episode: str, step: int) -> bool:
        """Marks it, or takes the mark away; True for the first. Raises `PinError` if that can't be kept."""
        steps = dict(self.steps)
        marked = steps.pop(episode, None) != step
        if marked:
            steps[episode] = step
        self._keep(steps)
        self.steps = steps
        return marked

    def _keep(self, steps: dict[str, int]) -> None:
        draft = self.file.with_suffix(f".{os.getpid()}")
        pins = [{"episode": episode, "step": step} for episode, step in steps.items()]
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            if self.file.exists() and not _is_ours(self.file):
                self.file.replace(self._aside)
            draft.write_text(json.dumps({"pins": pins}, indent=1) + "\n", encoding="utf-8")
            draft.replace(self.file)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise PinError(f"{self.file}: the pin is not kept: {error.strerror or error}") from error


def _read(file: Path) -> dict[str, int]:
    """Raises `ValueError` for anything that isn't pins."""
    told = json.loads(file.read_text(encoding="utf-8"))
    try:
        return {str(pin["episode"]): int(pin["step"]) for pin in told["pins"]}
    except (TypeError, KeyError) as error:
        raise ValueError(f"{error}") from error


def _is_ours(file: Path) -> bool:
    try:
        _read(file)
    except ValueError:
        return False
    return True
