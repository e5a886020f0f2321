"""Edit what a role is told, while it plays."""

from __future__ import annotations

import difflib
import re
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static, Tab, Tabs, TextArea

from tui.actions import bindings
from tui.text import clean, head, one_line, width
from tui.theme import Palette, palette, sign, style
from tui.widgets.painted import Line, Painted

WORDS = re.compile(r"\n|[^\S\n]+|[^\s]+")

LONGEST = 100_000
"""Characters of a prompt that the editor takes."""


class PromptArea(TextArea):
    """A text area that takes no control characters in, by paste or load."""

    async def _on_paste(self, event: events.Paste) -> None:
        event.text = clean(event.text, LONGEST)
        await super()._on_paste(event)


class EditPrompt(ModalScreen[dict[str, str] | None]):
    """Returns the prompts that changed, by role; None if it was left without a change."""

    CSS_PATH = "prompt.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("edit"),
        Binding("ctrl+pageup,f2", "other_role", "Next role", show=False),
    ]

    def __init__(self, prompts: dict[str, str], role: str = "") -> None:
        super().__init__()
        self.before = {name: clean(prompt, LONGEST) for name, prompt in prompts.items()}
        self.after = dict(self.before)
        self.roles = list(prompts)
        self.role = role if role in self.before else next(iter(self.before), "")

    def compose(self) -> ComposeResult:
        with Vertical(classes="edit"):
            yield Static(Content("Edit a prompt"), classes="title")
            yield Tabs(
                *(
                    Tab(Content(f"{sign(place)} {one_line(name, 30)}"), id=f"role-{place}")
                    for place, name in enumerate(self.roles)
                ),
                active=f"role-{self.roles.index(self.role)}" if self.role else None,
            )
            yield PromptArea(
                self.after.get(self.role, ""), soft_wrap=True, tab_behavior="focus", show_line_numbers=False
            )
            yield Static(Content("What changes"), classes="heading")
            yield Painted(id="diff", focusable=False)
            yield Static(
                Content("In force from the next episode; those in play keep the old prompt."), classes="note"
            )
            with Horizontal(classes="buttons"):
                yield Button(Content("Apply ^s"), id="apply", variant="primary", compact=True)
                yield Button(Content("Cancel esc"), id="cancel", compact=True)

    def on_mount(self) -> None:
        area = self.query_one(PromptArea)
        area.focus()
        area.move_cursor(area.document.end)

    def on_resize(self) -> None:
        self.call_after_refresh(self._tell)

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        role = self.roles[int((event.tab.id or "role-0").removeprefix("role-"))]
        if role != self.role:
            self.role = role
            area = self.query_one(PromptArea)
            area.load_text(self.after[role])
            area.move_cursor(area.document.end)
        self._tell()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        self.after[self.role] = event.text_area.text
        self._tell()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "apply":
            self.action_apply()
        else:
            self.action_cancel()

    def action_other_role(self) -> None:
        self.query_one(Tabs).action_next_tab()

    def action_apply(self) -> None:
        changed = {name: text for name, text in self.after.items() if text != self.before[name]}
        if not changed:
            self.notify("Nothing has changed yet.", markup=False)
            return
        self.dismiss(changed)

    def action_cancel(self) -> None:
        self.dismiss(None)

    def _tell(self) -> None:
        if not self.role or not self.is_mounted:
            return
        diff = self.query_one("#diff", Painted)
        before, after = self.before[self.role], clean(self.after[self.role], LONGEST)
        diff.show(difference(before, after, diff.cells, palette(self.app.theme)))
        apply = self.query_one("#apply", Button)
        apply.disabled = self.after == self.before


def difference(before: str, after: str, cells: int, colours: Palette) -> list[Line]:
    """Lines taken away and lines added, with their signs and the words that differ; what stays is left out."""
    if before == after:
        return [(("  no change yet", style(colours.soft)),)]
    old, new = before.split("\n"), after.split("\n")
    lines: list[Line] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            lines += _changed("\n".join(old[a:b]), "\n".join(new[c:d]), cells, colours)
    return lines


def _changed(old: str, new: str, cells: int, colours: Palette) -> list[Line]:
    """One replaced passage: what it was and what it is, each word that differs marked."""
    soft = style(colours.soft)
    gone, come = Style(color=colours.bad, strike=True), Style(color=colours.good, bold=True, underline=True)
    before, after = WORDS.findall(old), WORDS.findall(new)
    removed: list[tuple[str, Style]] = []
    added: list[tuple[str, Style]] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        removed += [(word, soft if kind == "equal" else gone) for word in before[a:b]]
        added += [(word, soft if kind == "equal" else come) for word in after[c:d]]
    minus, plus = style(colours.bad, bold=True), style(colours.good, bold=True)
    return [*_flow("−", minus, removed, cells), *_flow("+", plus, added, cells)]


def _flow(mark: str, look: Style, words: list[tuple[str, Style]], cells: int) -> list[Line]:
    """Words set in lines behind a mark."""
    rows: list[list[tuple[str, Style]]] = []
    room = 0
    for word, word_look in words:
        if word == "\n" or width(word) > room or not rows:
            rows.append([])
            room = cells - 2
        if word != "\n" and (rows[-1] or word.strip()):
            rows[-1].append((head(word, room), word_look))
            room -= width(word)
    return [((f"{mark if i == 0 else ' '} ", look), *row) for i, row in enumerate(rows)]
