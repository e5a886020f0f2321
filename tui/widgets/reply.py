"""Where a person replies: legal moves as a list and a field to type one, or room for free words."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from tui.playing import Menu
from tui.screens.prompt import PromptArea

TYPED = 2000
"""Characters of a move and what is said beside it."""


class Reply(Vertical):
    """Hidden where nothing is asked."""

    class Chosen(Message):
        """A move was clicked on."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.menu = Menu(())
        self._moves = OptionList(id="moves", markup=False, compact=True)
        self._typed = Input(id="typed", compact=True, max_length=TYPED, placeholder="your move")
        self._words = PromptArea(id="words", soft_wrap=True, tab_behavior="focus", show_line_numbers=False)

    def compose(self) -> ComposeResult:
        yield self._moves
        yield self._typed
        yield self._words

    def ask(self, legal: tuple[str, ...] | None) -> None:
        """For one of the legal replies, for any where there are none, and for nothing with None."""
        self.menu = Menu(legal or ())
        self.display = legal is not None
        self._moves.display = self._typed.display = bool(legal)
        self._words.display = legal is not None and not legal
        self._moves.clear_options()
        self._typed.value = self._words.text = ""
        if legal:
            self._moves.add_options(Option(Content(label)) for label in self.menu.labels({}))
            self._moves.highlighted = None
            self._typed.focus()
        elif legal is not None:
            self._words.focus()

    @property
    def text(self) -> str:
        """What is typed, or marked in the list; empty where neither is."""
        if self._words.display:
            return self._words.text
        typed, place = self._typed.value.strip(), self._moves.highlighted
        if typed:
            return self.menu.find(typed) or typed
        return self.menu.legal[place] if place is not None else ""

    def show_odds(self, odds: dict[str, dict[str, float]]) -> None:
        """Beside each move, by player."""
        for place, label in enumerate(self.menu.labels(odds)):
            self._moves.replace_option_prompt_at_index(place, Content(label))

    def move(self, by: int) -> None:
        """Mark the next move, or the one before."""
        if self._moves.display and self.menu.legal:
            place = self._moves.highlighted
            start = (-1 if by > 0 else 0) if place is None else place
            self._moves.highlighted = (start + by) % len(self.menu.legal)

    def newline(self) -> None:
        if self._words.display:
            self._words.insert("\n")

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.post_message(self.Chosen(self.menu.legal[event.option_index]))

    def on_input_changed(self, event: Input.Changed) -> None:
        if self.menu.legal:
            self._moves.highlighted = self.menu.place(event.value)
