"""Two questions with a text for an answer: a name, and a text of many lines."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from tui.screens.prompt import LONGEST, PromptArea
from tui.text import clean, one_line


class AskName(ModalScreen[str | None]):
    """A name, or another short text; None if it was left."""

    CSS_PATH = "dialog.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel", priority=True)]

    def __init__(self, title: str, text: str, proposed: str, longest: int = 80) -> None:
        super().__init__()
        self._words = (one_line(title), clean(text, 2000), one_line(proposed, longest))
        self._longest = longest

    def compose(self) -> ComposeResult:
        title, text, proposed = self._words
        with Vertical(classes="dialog"):
            yield Static(Content(title), classes="title")
            yield Static(Content(text), classes="words")
            yield Input(proposed, compact=True, max_length=self._longest)
            with Horizontal(classes="buttons"):
                yield Button(Content("Save"), id="yes", variant="primary", compact=True)
                yield Button(Content("Cancel"), id="no", compact=True)

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value.strip())

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(self.query_one(Input).value.strip() if event.button.id == "yes" else None)

    def action_cancel(self) -> None:
        self.dismiss(None)


class LongText(ModalScreen[str | None]):
    """A text with lines; None if it was left, or is what it was."""

    CSS_PATH = "prompt.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "apply", "Apply", priority=True),
        Binding("escape", "cancel", "Cancel", priority=True),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self.title_words = one_line(title)
        self.before = clean(text, LONGEST)

    def compose(self) -> ComposeResult:
        with Vertical(classes="edit"):
            yield Static(Content(self.title_words), classes="title")
            yield PromptArea(self.before, soft_wrap=True, tab_behavior="focus", show_line_numbers=False)
            with Horizontal(classes="buttons"):
                yield Button(Content("Apply ^s"), id="apply", variant="primary", compact=True)
                yield Button(Content("Cancel esc"), id="cancel", compact=True)

    def on_mount(self) -> None:
        area = self.query_one(PromptArea)
        area.focus()
        area.move_cursor(area.document.end)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "apply":
            self.action_apply()
        else:
            self.action_cancel()

    def action_apply(self) -> None:
        text = self.query_one(PromptArea).text
        self.dismiss(text if text != self.before else None)

    def action_cancel(self) -> None:
        self.dismiss(None)
