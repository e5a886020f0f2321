"""Asked before going back in a run, and before making another from one of its checkpoints."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from tui.text import one_line
from tui.words import plural

Back = Literal["keep", "undo"]


class GoBack(ModalScreen[Back | None]):
    """Returns whether edits made since then stay or are undone; None to stay where the run is."""

    CSS_PATH = "dialog.tcss"
    AUTO_FOCUS = "#stay"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Stay", show=False),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
    ]

    def __init__(self, name: str, step: int, now: int, edits: int) -> None:
        super().__init__()
        self._title = f"Go back to step {step}?"
        self._words = (
            f"{one_line(name, 40)} is at step {now}. Its record and its automatic checkpoints after step {step} "
            "are dropped; checkpoints kept by hand, as the best or as the last one move to its folder 'undone'. "
            "To lose nothing, make a fork instead."
        )
        self._edits = edits

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content(self._title), classes="title")
            yield Static(Content(self._words), classes="words")
            if self._edits:
                yield Static(Content(f"\n{plural(self._edits, 'edit')} came after it."), classes="words")
            with Horizontal(classes="buttons"):
                if self._edits:
                    yield Button(Content("Keep edits"), id="keep", compact=True)
                    yield Button(Content("Undo them"), id="undo", compact=True)
                else:
                    yield Button(Content("Go back"), id="keep", compact=True)
                yield Button(Content("Stay esc"), id="stay", variant="primary", compact=True)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        chosen: dict[str, Back] = {"keep": "keep", "undo": "undo"}
        self.dismiss(chosen.get(event.button.id or ""))


@dataclass(frozen=True, slots=True)
class Branch:
    """A fork that is asked for."""

    name: str | None
    changes: tuple[str, ...]


class AskFork(ModalScreen[Branch | None]):
    """Asks for a name and for changes; what is wrong with them is told once the fork is tried."""

    CSS_PATH = "dialog.tcss"
    AUTO_FOCUS = "#name"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Cancel", show=False)]

    def __init__(self, name: str, step: int, steps: int) -> None:
        super().__init__()
        self._run, self._step, self._steps = one_line(name, 40), step, steps

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content(f"Fork {self._run} at step {self._step}"), classes="title")
            words = (
                "A new run that begins from this checkpoint, under the settings in force there. Changes are "
                "written KEY=VALUE, separated by blanks."
            )
            yield Static(Content(words), classes="words")
            with Vertical(classes="foot"):
                with Horizontal(classes="field"):
                    yield Static(Content("Name"), classes="label")
                    yield Input(placeholder=f"{self._run} and a number", compact=True, id="name")
                with Horizontal(classes="field"):
                    yield Static(Content("Changes"), classes="label")
                    yield Input(self._changes(), placeholder="train.learning_rate=3e-4", compact=True, id="changes")
                with Horizontal(classes="buttons"):
                    yield Button(Content("Fork ⏎"), id="fork", variant="primary", compact=True)
                    yield Button(Content("Cancel esc"), id="cancel", compact=True)

    def _changes(self) -> str:
        """A fork of a run that is done would have nothing to do."""
        return f"run.steps={2 * self._steps}" if self._step >= self._steps else ""

    def on_input_submitted(self) -> None:
        self._fork()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "fork":
            self._fork()
        else:
            self.dismiss(None)

    def _fork(self) -> None:
        name, changes = (self.query_one(f"#{field}", Input).value.strip() for field in ("name", "changes"))
        try:
            self.dismiss(Branch(name or None, tuple(shlex.split(changes))))
        except ValueError as error:
            self.notify(f"Changes: {error}; texts with blanks stand in quotes.", severity="error", markup=False)
