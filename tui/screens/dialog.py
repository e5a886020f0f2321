"""Questions and announcements that stand over a screen."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from tui.text import clean, one_line

LOW: list[tuple[int, str]] = [(0, "-low"), (20, "-high")]
"""In a terminal of fewer than 20 lines such screens have the class `-low`, and leave out what they can."""


class Confirm(ModalScreen[bool]):
    """A question with two answers. Enter takes the first, escape the second."""

    CSS_PATH = "dialog.tcss"
    AUTO_FOCUS = "#yes"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", show=False),
        Binding("n,escape", "answer(False)", "No", show=False),
        Binding("left,right", "app.focus_next", show=False),
    ]

    def __init__(self, title: str, text: str, yes: str, no: str = "Cancel") -> None:
        super().__init__()
        self._words = (one_line(title), clean(text, 2000), yes, no)

    def compose(self) -> ComposeResult:
        title, text, yes, no = self._words
        with Vertical(classes="dialog"):
            yield Static(Content(title), classes="title")
            yield Static(Content(text), classes="words")
            with Horizontal(classes="buttons"):
                yield Button(Content(yes), id="yes", variant="primary", compact=True)
                yield Button(Content(no), id="no", compact=True)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)


class Waiting(ModalScreen[None]):
    """Says what is being waited for, until `end`; keys meanwhile do nothing to what lies below."""

    CSS_PATH = "dialog.tcss"

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._words = (one_line(title), clean(text, 2000))
        self._is_over = False

    def compose(self) -> ComposeResult:
        title, text = self._words
        with Vertical(classes="dialog"):
            yield Static(Content(title), classes="title")
            yield Static(Content(text), classes="words")

    def end(self) -> None:
        """Goes: at once, or when what stands over it has gone."""
        self._is_over = True
        self.on_screen_resume()

    def on_screen_resume(self) -> None:
        if self._is_over and self.is_active:
            self.dismiss()


class TooSmall(ModalScreen[None]):
    """Stands over everything while the terminal is too small to show it."""

    CSS_PATH = "dialog.tcss"
    NEEDED = (60, 15)

    def compose(self) -> ComposeResult:
        yield Static(id="too-small")

    def on_mount(self) -> None:
        self._tell()

    def on_resize(self) -> None:
        self._tell()

    def _tell(self) -> None:
        wide, high = self.NEEDED
        here = self.app.size
        self.query_one(Static).update(
            Content(f"needs {wide}×{high} cells\nthis has {here.width}×{here.height}\n\n^q quits")
        )
