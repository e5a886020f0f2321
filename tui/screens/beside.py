"""Which runs to draw beside the one at work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.interface import RunInfo
from tui.widgets.checklist import CheckList, Item


class RunChoice(ModalScreen[list[Path]]):
    """Returns the folders that are chosen when it is left; those that can't be read aren't offered."""

    CSS_PATH = "metrics.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "choose", "Choose", show=False),
        Binding("enter,escape", "leave", "Done", show=False),
    ]

    def __init__(self, runs: Sequence[RunInfo], chosen: Sequence[Path]) -> None:
        super().__init__()
        self.runs = [run for run in runs if not run.problem]
        self.left_out = len(runs) - len(self.runs)
        self.chosen = [folder for folder in chosen if folder in {run.folder for run in self.runs}]

    def compose(self) -> ComposeResult:
        note = "space chooses · enter draws them beside"
        if self.left_out:
            note += f" · {self.left_out} can't be read"
        with Vertical(id="run-choice"):
            yield Static(Content("Beside which runs?"), classes="title")
            yield CheckList(id="beside")
            yield Static(Content(note), classes="note")

    def on_mount(self) -> None:
        self.query_one(CheckList).focus()
        self._show()

    def action_choose(self) -> None:
        self._toggle(self.query_one(CheckList).key)

    def action_leave(self) -> None:
        self.dismiss(self.chosen)

    def on_check_list_toggled(self, message: CheckList.Toggled) -> None:
        self._toggle(message.key)

    def _toggle(self, key: str) -> None:
        for run in self.runs:
            if str(run.folder) == key:
                (self.chosen.remove if run.folder in self.chosen else self.chosen.append)(run.folder)
        self._show()

    def _show(self) -> None:
        self.query_one(CheckList).show([self._item(run) for run in self.runs])

    def _item(self, run: RunInfo) -> Item:
        step = f"step {run.step}" if run.step else ""
        words = " · ".join(text for text in (run.title, step, run.when) if text)
        return Item(str(run.folder), run.name, words, run.folder in self.chosen)
