"""What episodes ask the person who watches: the texts, the question, and how to answer it."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, OptionList, Static
from textual.widgets.option_list import Option

from engine.types import Question
from tui.actions import bindings, everywhere
from tui.interface import RunLike
from tui.screens.dialog import LOW
from tui.text import clean, one_line, wrap
from tui.theme import Palette, palette, style
from tui.widgets.painted import BLANK, Line, OneLine, Painted, spread
from tui.words import elapsed

GLANCE = 0.5
"""Seconds between two looks at what time is left."""

LINGER = 4
"""Looks for which it waits for another question before it leaves: a step's come soon after the last one's."""

LONGEST = 4000
"""Characters of an answer in one's own words."""


class Questions(ModalScreen[None]):
    """One open question after the other. Leaves by itself when no more come."""

    CSS_PATH = "questions.tcss"
    VERTICAL_BREAKPOINTS = LOW
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("ask"), *everywhere()]

    def __init__(self, run: RunLike) -> None:
        super().__init__()
        self.run = run
        self.question: Question | None = None
        self._drafts: dict[int, str] = {}
        self._idle = 0

    def compose(self) -> ComposeResult:
        with Vertical(classes="ask"):
            yield OneLine(id="which")
            yield Painted(id="about")
            yield Static(id="asked")
            yield OptionList(id="choices", markup=False, compact=True)
            yield Input(id="words", compact=True, max_length=LONGEST, placeholder="your answer")
            yield Static(id="note")
            with Horizontal(classes="buttons"):
                yield Button(Content("Skip ^k"), id="skip", compact=True)
                yield Button(Content("Next ^n"), id="next", compact=True)
                yield Button(Content("Later esc"), id="later", compact=True)

    def on_mount(self) -> None:
        self.look()
        self.set_interval(GLANCE, self.look)

    def on_resize(self) -> None:
        self.call_after_refresh(self.fill)

    # What is shown

    def look(self) -> None:
        """Stays with its question while that is open; else goes to the next one, or leaves after a while."""
        if not self.is_running:
            return
        there = {question.id: question for question in self.run.questions}
        here = there.get(self.question.id) if self.question else None
        self._idle = 0 if there else self._idle + 1
        if here is not None:
            self.question = here
            self._tell_time(list(there))
        elif there:
            self._show(next(iter(there.values())))
        elif self._idle > LINGER and self.is_active:  # else what lies over it would go in its place
            self.dismiss()
        elif self.question is not None:
            self._show_none()

    def _show(self, question: Question) -> None:
        self.question = question
        choices, words = self.query_one(OptionList), self.query_one(Input)
        choices.display, words.display = bool(question.choices), not question.choices
        choices.clear_options()
        choices.add_options(Option(Content(label(i, text))) for i, text in enumerate(question.choices, 1))
        choices.highlighted = None
        words.value = self._drafts.get(question.id, "")
        (choices if question.choices else words).focus()
        self.query_one("#asked", Static).update(Content(clean(question.text, 2000)))
        how = "a number, a click, or ↑ ↓ ⏎" if question.choices else "⏎ gives the answer"
        self.query_one("#note", Static).update(Content(f"{how} · page up and down scroll"))
        self.query_one(Painted).scroll_home(animate=False)
        self.fill()
        self.call_after_refresh(self.fill)

    def _show_none(self) -> None:
        self.question = None
        self.query_one(OptionList).display = self.query_one(Input).display = False
        for name in ("#asked", "#note"):
            self.query_one(name, Static).update()
        self.query_one(Painted).show([(("Thank you. No question for now.", style(palette(self.app.theme).soft)),)])
        self.query_one("#which", OneLine).show(BLANK)

    def fill(self) -> None:
        """Shows what the question is about, and what time is left."""
        if self.question is not None and self.is_mounted:
            about = self.query_one(Painted)
            about.show(texts(self.question.about, about.cells, palette(self.app.theme)))
            self._tell_time([question.id for question in self.run.questions])

    def _tell_time(self, open_: list[int]) -> None:
        question, colours = self.question, palette(self.app.theme)
        if question is None:
            return
        place = open_.index(question.id) + 1 if question.id in open_ else 1
        left: Line = (
            (f"Question {place} of {len(open_)}", style(colours.accent, bold=True)),
            (f"  episode {one_line(question.rollout_id, 24)}", style(colours.soft)),
        )
        time = "" if question.left is None else f"{elapsed(question.left).removeprefix('0:')} left"
        which = self.query_one("#which", OneLine)
        which.show(spread(left, ((time, style(colours.soft)),), which.size.width))

    # What is done

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.action_choose(event.option_index + 1)

    def on_input_submitted(self) -> None:
        self.action_send()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        {"skip": self.action_skip, "next": self.action_next, "later": self.action_later}[event.button.id or ""]()

    def action_choose(self, number: int) -> None:
        if self.question is not None and number <= len(self.question.choices):
            self._answer(self.question.choices[number - 1])

    def action_send(self) -> None:
        words = self.query_one(Input)
        if words.display and words.value.strip():
            self._answer(words.value.strip())
        elif words.display:
            self.app.notify("Nothing is written yet; ^k skips the question.", markup=False)

    def action_skip(self) -> None:
        self._answer(None)

    def action_next(self) -> None:
        there = self.run.questions
        if self.question is None or not there:
            return
        self._drafts[self.question.id] = self.query_one(Input).value
        ids = [question.id for question in there]
        place = ids.index(self.question.id) + 1 if self.question.id in ids else 0
        self._show(there[place % len(there)])

    def action_later(self) -> None:
        self.dismiss()

    def action_scroll_texts(self, pages: int) -> None:
        about = self.query_one(Painted)
        about.scroll_relative(y=pages * max(about.size.height - 1, 1), animate=False)

    def _answer(self, text: str | None) -> None:
        if self.question is None:
            return
        try:
            self.run.answer(self.question.id, text)
        except Exception as error:  # its time may have been over a moment ago
            self.app.notify(one_line(f"{error}"), severity="warning", markup=False)
        self.look()


def label(number: int, choice: str) -> str:
    """A choice behind its number, as long as there is a key for it."""
    return f" {number if number < 10 else ' '}  {one_line(choice, 200)}"


def texts(about: tuple[str, ...], cells: int, colours: Palette) -> list[Line]:
    """What is asked about. Each line has a bar before it, so that no text can pass for the app's own words."""
    lines: list[Line] = []
    for place, text in enumerate(about, 1):
        if len(about) > 1:
            lines.append(((f"{place} of {len(about)}", style(colours.soft, bold=True)),))
        rows = wrap(clean(text), cells - 2) if text.strip() else ["(empty)"]
        lines += [(("│ ", colours.role(place - 1)), (row, style(colours.text))) for row in rows]
        lines.append(BLANK)
    return lines[:-1]
