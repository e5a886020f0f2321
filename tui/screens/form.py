"""A preset as a form: every key with its help, bounds and what is wrong with it, as one types."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual import events, work
from textual.app import ComposeResult
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input, Static

from engine.config import Config
from tui.actions import bindings
from tui.form import tasks
from tui.form.fields import Field
from tui.form.form import Form
from tui.form.lines import about, columns, head, is_long
from tui.screens import keeping
from tui.screens.dialog import Confirm
from tui.screens.texts import LongText
from tui.text import clean, one_line
from tui.theme import palette
from tui.widgets.fieldlist import FieldList
from tui.widgets.keybar import KeyBar
from tui.widgets.painted import OneLine, Painted, spread
from tui.widgets.pane import Pane
from tui.words import plural

WIDE = 110
"""A terminal at least so wide shows help beside the fields."""

PATIENCE = 0.3
"""Seconds without a change after which the tasks are asked again."""


class FormScreen(Screen[None]):
    """Edits a configuration. The field under the cursor is edited in its row; what leaves it is `Ready`."""

    CSS_PATH = "form.tcss"
    AUTO_FOCUS = "#form-list"
    BINDINGS = bindings("form")

    class Ready(Message):
        """A configuration to start a run of."""

        def __init__(self, config: Config) -> None:
            super().__init__()
            self.config = config

    def __init__(self, name: str, config: Config, judge: Callable[[Config], str] | None = None) -> None:
        super().__init__()
        self.preset = name
        self.form = Form(config)
        self.judge = judge
        self.memory = ""
        self._searching = False
        """Whether the filter has the focus, or is just getting it."""

    def compose(self) -> ComposeResult:
        self.header = OneLine(id="form-header")
        hint = "filter by name, help or value; * what changed, ! what is wrong"
        self.filter = Input(placeholder=hint, compact=True, id="form-filter")
        self.list = FieldList(self.form, id="form-list")
        self.value = Input(compact=True, id="form-value")
        self.help = Painted(id="form-help", focusable=False)
        self.brief = Painted(id="form-brief", focusable=False)
        yield self.header
        with Horizontal(id="form-filter-row"):
            yield Static(Content(" / "), id="form-filter-sign")
            yield self.filter
        with Horizontal(id="form-body"):
            with Container(id="form-fields"):
                yield self.list
                yield self.value
            yield Pane(0, "About", self.help, id="form-about")
        yield self.brief
        yield KeyBar("form")

    def on_mount(self) -> None:
        self.list.show(self.form, "")
        self.list.first()
        self.list.focus()
        self._ask(0.0)
        self._weigh()

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "wide")
        self.call_after_refresh(self.fill)

    # What is shown

    def fill(self) -> None:
        """Shows the form as it is."""
        if not self.is_mounted:
            return
        self.list.show(self.form, self.filter.value)
        self._place()
        self._tell()

    def _tell(self) -> None:
        colours = palette(self.app.theme)
        self.header.show(spread(*head(self.preset, self.form, self.memory, colours), self.size.width))
        shown = self.help if self.has_class("wide") else self.brief
        shown.show(about(self.form, self.list.row, shown.cells, colours))

    @property
    def _field(self) -> Field | None:
        row = self.list.row
        return row.field if row else None

    def _place(self) -> None:
        """Lays the editor over the value under the cursor, if it is one to type."""
        f = self._field
        typed = f is not None and not f.choices and not is_long(f)
        self.value.display = typed
        if f is None or not typed:
            if not self._searching:
                self.list.focus()
            return
        text = clean(f.text).replace("\n", " ")
        if self.value.value != text and self.value.value != f.text:
            with self.prevent(Input.Changed):
                self.value.value = text
            self.value.cursor_position = len(text)
        start, cells = columns(self.list.cells)
        self.value.styles.width = cells
        self.value.styles.offset = (start, self.list.cursor - round(self.list.scroll_offset.y))
        if not self._searching:
            self.value.focus(scroll_visible=False)

    def _changed(self) -> None:
        """Something was edited."""
        self.list.show(self.form, self.filter.value)
        self._place()
        self._tell()
        self._ask(PATIENCE)
        self._weigh()

    @work(exclusive=True, group="facts")
    async def _ask(self, patience: float) -> None:
        """Asks the tasks what they take, off the loop: some import whole libraries first."""
        await asyncio.sleep(patience)
        self.form.learn(await asyncio.to_thread(tasks.ask, self.form.latest))
        self.fill()

    @work(exclusive=True, group="memory")
    async def _weigh(self) -> None:
        if self.judge is not None:
            self.memory = await asyncio.to_thread(self.judge, self.form.latest)
            self._tell()

    # Moving and editing

    def on_key(self, event: events.Key) -> None:
        if self._heard(event.key):
            event.stop()
            event.prevent_default()

    def _heard(self, key: str) -> bool:
        if self.filter.has_focus:
            if key not in ("down", "enter"):
                return False
            self._searching = False
            self._move(0)
            return True
        page = self.list.size.height - 1
        step = {"up": -1, "down": 1, "pageup": -page, "pagedown": page}
        if self.list.has_focus:  # in a field these are for its text
            step |= {"home": -len(self.list.rows), "end": len(self.list.rows)}
        if key in step:
            self._move(step[key])
            return True
        f = self._field
        if f is None:
            if key in ("enter", "space", "left", "right") and self.list.row is not None:
                self.form.fold(self.list.row.group, {"left": False, "right": True}.get(key))
                self.fill()
                return True
            return False
        if f.choices and key in ("left", "right", "space"):
            self._choose(f, -1 if key == "left" else 1)
            return True
        if key == "enter":
            if is_long(f):
                self._open_text(f)
            else:
                self._move(1)
            return True
        return False

    def _move(self, lines: int) -> None:
        self.list.move(self.list.cursor + lines)
        self._place()
        self._tell()

    def _choose(self, f: Field, step: int) -> None:
        here = f.choices.index(f.text) if f.text in f.choices else -1
        self.form.set(f.name, f.choices[(here + step) % len(f.choices)])
        self._changed()

    def _open_text(self, f: Field) -> None:
        def written(text: str | None) -> None:
            if text is not None:
                self.form.set(f.name, text)
                self._changed()

        self.app.push_screen(LongText(f.name, f.text or f.own), written)

    def on_field_list_picked(self, message: FieldList.Picked) -> None:
        again = message.place == self.list.cursor
        self._searching = False
        self.list.move(message.place)
        f = self._field
        if f is None and self.list.row is not None:
            self.form.fold(self.list.row.group)
            self.fill()
        elif f is not None and again and f.choices:
            self._choose(f, 1)
        elif f is not None and again and is_long(f):
            self._open_text(f)
        self._place()
        self._tell()

    def on_field_list_scrolled(self) -> None:
        self._place()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input is self.filter:
            here = self._field
            self.list.show(self.form, self.filter.value)
            if self._field is not here:
                self.list.first()
            self._move(0)
        elif (f := self._field) is not None and event.value != clean(f.text).replace("\n", " "):
            self.form.set(f.name, event.value)
            self._changed()

    # Actions of the table

    def action_filter(self) -> None:
        self._searching = True
        self.filter.focus()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        self._searching = event.widget is self.filter

    def action_undo(self, to_default: bool = False) -> None:
        """The field's text as the preset has it, or as the schema does."""
        if self._field is not None:
            self.form.reset(self._field.name, to_default=to_default)
            self._changed()

    def action_start(self) -> None:
        if self._is_right() and self.form.config is not None:
            self.post_message(self.Ready(self.form.config))

    def action_save(self) -> None:
        if self._is_right() and self.form.config is not None:
            keeping.ask(self, self.preset, self.form.config, self._kept)

    def _kept(self, name: str, config: Config) -> None:
        """From here on changes are told from what was saved."""
        self.preset = name
        facts, self.form = self.form.facts, Form(config)
        self.form.learn(facts)
        self.fill()

    def _is_right(self) -> bool:
        """Whether there is a configuration; if not, says why and goes to the first thing that is wrong."""
        wrong = self.form.problems
        if not wrong:
            return True
        name = next(iter(wrong))
        more = f" ({plural(len(wrong) - 1, 'other')} beside)" if len(wrong) > 1 else ""
        self.notify(one_line(f"{name}: {wrong[name]}{more}"), severity="error", markup=False, timeout=10)
        self.filter.value, self._searching = "", False
        self.form.show(name)
        self.list.show(self.form, "")
        self.list.find(name)
        self._move(0)
        return False

    def action_back(self) -> None:
        if self._searching:
            self._searching = False
            self.filter.value = ""
            self._place()
        elif self.form.changed:
            words = f"{plural(self.form.changed, 'change')} of {self.preset} would be lost."
            self.app.push_screen(Confirm("Leave without saving?", words, "Leave", "Stay"), self._leave)
        else:
            self.dismiss()

    def _leave(self, yes: bool | None) -> None:
        if yes:
            self.dismiss()
