"""Episodes marked to be found again, with notes, in a small file beside the run."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from engine.folders import beside
from engine.reading.fulltext import Hit
from engine.reading.query import Query

FILE = "pins.json"

NOTE = -1
"""Stands for the turn of a hit that is a note: it belongs to the whole episode."""


class PinError(Exception):
    """Pins that can't be read or kept: says where, and why."""


@dataclass(frozen=True, slots=True)
class Pin:
    """That an episode was marked."""

    step: int
    note: str = ""
    """What its reader wrote to it."""


class Pins:
    """Episodes by id, each with the step it was played in. `home` is where they are kept of a run that can't be
    written to."""

    def __init__(self, folder: Path, home: Path) -> None:
        self._folder, self.file = folder, beside(folder, FILE, home)
        self.marked: dict[str, Pin] = {}
        self._taken_away: dict[str, Pin] = {}
        """In this sitting: a note isn't lost by a wrong key."""

    def load(self) -> None:
        """Raises `PinError` for a file that isn't one of ours; it is then set aside by the next change."""
        self.marked = {}
        try:
            self.marked = _read(self.file)
        except FileNotFoundError:
            return
        except OSError as error:
            raise PinError(f"{self.file}: {error.strerror or error}") from error
        except ValueError as error:
            aside = self._aside.name
            raise PinError(f"{self.file} holds no pins; it is kept as {aside} once you pin something") from error

    @property
    def steps(self) -> list[int]:
        return [pin.step for pin in self.marked.values()]

    def of(self, episode: str, step: int) -> Pin | None:
        """The pin of an episode; another one of the same id, in another step, has none."""
        pin = self.marked.get(episode)
        return pin if pin is not None and pin.step == step else None

    def toggle(self, episode: str, step: int) -> bool:
        """Marks it, or takes the mark away; True for the first. Raises `PinError` if that can't be kept."""
        marked, here = dict(self.marked), self.of(episode, step)
        if here is not None:
            del marked[episode]
            self._taken_away[episode] = here
        else:
            before = self._taken_away.get(episode)
            marked[episode] = before if before is not None and before.step == step else Pin(step)
        self._keep(marked)
        return here is None

    def annotate(self, episode: str, step: int, note: str) -> None:
        """Writes a note to it, and marks it; an empty one takes the note away. Raises `PinError` as `toggle`."""
        self._keep({**self.marked, episode: Pin(step, note.strip())})

    def found(self, query: Query) -> list[Hit]:
        """The pins whose notes say what is looked for, by step. Filters are of turns: no note passes one."""
        if query.filters:
            return []
        told = sorted(self.marked.items(), key=lambda entry: entry[1].step)
        return [
            Hit(episode, pin.step, NOTE, "", False, None, ((pin.note, False),))
            for episode, pin in told
            if pin.note and query.is_said_in(pin.note)
        ]

    @property
    def _aside(self) -> Path:
        return self.file.with_suffix(".damaged")

    def _keep(self, marked: dict[str, Pin]) -> None:
        draft = self.file.with_suffix(f".{os.getpid()}")
        pins = [
            {"episode": episode, "step": pin.step} | ({"note": pin.note} if pin.note else {})
            for episode, pin in marked.items()
        ]
        try:
            if self.file.parent != self._folder:  # a run deleted meanwhile must not leave a folder again
                self.file.parent.mkdir(parents=True, exist_ok=True)
            if self.file.exists() and not _is_ours(self.file):
                self.file.replace(self._aside)
            draft.write_text(json.dumps({"pins": pins}, indent=1) + "\n", encoding="utf-8")
            draft.replace(self.file)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise PinError(f"{self.file}: the pin is not kept: {error.strerror or error}") from error
        self.marked = marked


def _read(file: Path) -> dict[str, Pin]:
    """Raises `ValueError` for anything that isn't pins."""
    told = json.loads(file.read_text(encoding="utf-8"))
    try:
        return {str(pin["episode"]): Pin(int(pin["step"]), str(pin.get("note", ""))) for pin in told["pins"]}
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{error}") from error


def _is_ours(file: Path) -> bool:
    try:
        _read(file)
    except ValueError:
        return False
    return True
