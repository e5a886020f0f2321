"""Edit what a role is told, while it plays: beside it what changes, behind it every version there was."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static, Tab, Tabs, TextArea

from tui import editor
from tui.actions import bindings, everywhere
from tui.screens.dialog import LOW
from tui.steering import Version
from tui.text import clean, head, one_line, width
from tui.theme import Palette, palette, sign, style
from tui.widgets.painted import Line, Painted

WORDS = re.compile(r"\n|[^\S\n]+|[^\s]+")

NOTE = "In force from the next episode; those in play keep the old prompt."

COMPARED = 100_000
"""Pairs of words, or lines, that are compared at most; 20 ms."""

SHOWN = 2_000
"""Words and gaps of a changed passage that are shown."""

LONGEST = 100_000
"""Characters of a prompt that the editor takes."""


class PromptArea(TextArea):
    """A text area that takes no control characters in, by paste or load."""

    async def _on_paste(self, event: events.Paste) -> None:
        event.text = clean(event.text, LONGEST)  # Textual calls TextArea's own handler next


class EditPrompt(ModalScreen[dict[str, str] | None]):
    """Returns the prompts that changed, by role; None if it was left without a change."""

    CSS_PATH = "prompt.tcss"
    VERTICAL_BREAKPOINTS = LOW
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("edit"), *everywhere()]

    def __init__(
        self, versions: Mapping[str, Sequence[Version]], role: str = "", written: Mapping[str, str] | None = None
    ) -> None:
        """`versions`: by role, those it ever had, the one in force first. `written`: what is begun with instead."""
        super().__init__()
        self.versions = versions
        self.before = {name: clean(all_[0].text, LONGEST) for name, all_ in versions.items()}
        self.after = self.before | {name: text for name, text in (written or {}).items() if name in self.before}
        self.roles = list(versions)
        self._place: dict[str, int] = {}
        """Of the version taken up, by role; none while what is there was written here."""
        self._drafts: dict[str, str] = {}
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
            yield Static(Content(NOTE), classes="note")
            with Horizontal(classes="buttons"):
                yield Button(Content("Earlier ^r"), id="earlier", compact=True)
                yield Button(Content("$EDITOR ^e"), id="editor", compact=True)
                yield Button(Content("Apply ^s"), id="apply", variant="primary", compact=True)
                yield Button(Content("Cancel esc"), id="cancel", compact=True)

    def on_mount(self) -> None:
        area = self.query_one(PromptArea)
        area.focus()
        area.move_cursor(area.document.end)

    def on_resize(self) -> None:
        self.call_after_refresh(self.fill)

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        role = self.roles[int((event.tab.id or "role-0").removeprefix("role-"))]
        if role != self.role:
            self.role = role
            area = self.query_one(PromptArea)
            area.load_text(self.after[role])
            area.move_cursor(area.document.end)
        self.fill()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        text = event.text_area.text
        if text != self.after[self.role]:
            self._place.pop(self.role, None)  # written on: a draft again
        self.after[self.role] = text
        self.fill()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        match event.button.id:
            case "apply":
                self.action_apply()
            case "earlier":
                self.action_earlier()
            case "editor":
                self.action_editor()
            case _:
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

    def action_earlier(self) -> None:
        """One version further back; behind the first one comes what was written here."""
        versions, role = self.versions.get(self.role, ()), self.role
        if len(versions) < 2:
            self.notify("This prompt has not been edited in this run: there is no earlier one.", markup=False)
            return
        place = self._place.get(role, 0)
        if not place:
            self._drafts[role] = self.after[role]
        place = (place + 1) % len(versions)
        text = clean(versions[place].text, LONGEST) if place else self._drafts[role]
        self._put(text)
        self._place[role] = place
        self.fill()

    def action_editor(self) -> None:
        self.run_worker(self._edit_elsewhere(), group="editor", exclusive=True)

    async def _edit_elsewhere(self) -> None:
        role = self.role
        try:
            text = await editor.edit(self.app, self.after[role], LONGEST)
        except (editor.EditorError, OSError) as error:
            self.notify(one_line(f"{error}"), severity="error", markup=False, timeout=10)
            return
        if self.is_mounted and role == self.role:
            self._put(clean(text, LONGEST))

    def _put(self, text: str) -> None:
        area = self.query_one(PromptArea)
        area.load_text(text)
        area.move_cursor(area.document.end)
        self.after[self.role] = text

    def _standing(self) -> str:
        """Which version is there."""
        place = self._place.get(self.role, 0)
        if not place:
            return NOTE
        version = self.versions[self.role][place]
        return f"As before edit {version.until} at step {version.step}; ^r goes further back."

    def fill(self) -> None:
        """Shows what changes, and which version is there."""
        if not self.role or not self.is_mounted:
            return
        diff = self.query_one("#diff", Painted)
        before, after = self.before[self.role], clean(self.after[self.role], LONGEST)
        diff.show(difference(before, after, diff.cells, palette(self.app.theme)))
        self.query_one(".note", Static).update(Content(self._standing()))
        apply = self.query_one("#apply", Button)
        apply.disabled = self.after == self.before


def difference(before: str, after: str, cells: int, colours: Palette) -> list[Line]:
    """Lines taken away and lines added, with their signs and the words that differ; what stays is left out."""
    if before == after:
        return [(("  no change yet", style(colours.soft)),)]
    old, new = before.split("\n"), after.split("\n")
    lines: list[Line] = []
    for kind, a, b, c, d in _compared(old, new):
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
    for kind, a, b, c, d in _compared(before, after):
        removed += [(word, soft if kind == "equal" else gone) for word in before[a:b]]
        added += [(word, soft if kind == "equal" else come) for word in after[c:d]]
    minus, plus = style(colours.bad, bold=True), style(colours.good, bold=True)
    return [*_flow("−", minus, removed, cells), *_flow("+", plus, added, cells)]


def _compared(old: list[str], new: list[str]) -> list[tuple[str, int, int, int, int]]:
    """difflib's opcodes, while somebody types: what both begin and end with is never compared, nor a long rest."""
    shorter = min(len(old), len(new))
    first = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    last = next((i for i in range(shorter - first) if old[-1 - i] != new[-1 - i]), shorter - first)
    one, other = old[first : len(old) - last], new[first : len(new) - last]
    codes = [("replace", 0, len(one), 0, len(other))]
    if len(one) * len(other) <= COMPARED:
        codes = difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    ends = ("equal", len(old) - last, len(old), len(new) - last, len(new))
    middle = [(kind, a + first, b + first, c + first, d + first) for kind, a, b, c, d in codes]
    return [("equal", 0, first, 0, first), *middle, ends]


def _flow(mark: str, look: Style, words: list[tuple[str, Style]], cells: int) -> list[Line]:
    """Words set in lines behind a mark."""
    rows: list[list[tuple[str, Style]]] = []
    room = 0
    for word, word_look in words[:SHOWN]:
        if word == "\n" or width(word) > room or not rows:
            rows.append([])
            room = cells - 2
        if word != "\n" and (rows[-1] or word.strip()):
            rows[-1].append((head(word, room), word_look))
            room -= width(word)
    if len(words) > SHOWN:
        rows.append([(f"… {len(words) - SHOWN:,} more words and gaps", look)])
    return [((f"{mark if i == 0 else ' '} ", look), *row) for i, row in enumerate(rows)]
