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
from tui.form.form import MORE, Form
from tui.form.lines import about, head, is_long
from tui.screens import adding, keeping
from tui.screens.dialog import Confirm
from tui.screens.texts import LongText
from tui.text import one_line
from tui.theme import palette
from tui.widgets.divider import Divider
from tui.widgets.entry import Entry
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
        self.value = Entry(compact=True, id="form-value")
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
            yield Divider("form-about", right=True)
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
        self.query_one(Divider).stand(self.size.width >= WIDE)
        self.call_after_refresh(self.fill)

    on_divider_moved = on_resize

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

    def _place(self) -> None:
        """Lays the editor over the value under the cursor, if it is one to type."""
        f = self.list.field
        self.value.display = f is not None and not f.choices and not is_long(f)
        if f is not None and self.value.display:
            self.value.lie_over(f, self.list)
        if not self._searching:
            (self.value if self.value.display else self.list).focus(scroll_visible=False)

    def _changed(self) -> None:
        """Something was edited."""
        self.fill()
        self._ask(PATIENCE)
        self._weigh()

    def went_to(self, group: str) -> None:
        """A table was put in or taken out: its heading is gone to, its fields in sight."""
        self._go_to(f"[{group}]")
        self.list.scroll_to(y=self.list.cursor - 1, animate=False)
        self._changed()

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
        f = self.list.field
        if f is None:
            if not (self.list.row and key in ("enter", "space", "left", "right")):
                return False
            self._open_group(self.list.row.group, {"left": False, "right": True}.get(key))
            return True
        if f.choices and key in ("left", "right", "space"):
            self.form.choose(f.name, -1 if key == "left" else 1)
            self._changed()
            return True
        if key == "enter":
            self._open_text(f) if is_long(f) else self._move(1)
            return True
        return False

    def _move(self, lines: int) -> None:
        self.list.move(self.list.cursor + lines)
        self._place()
        self._tell()

    def _go_to(self, row: str) -> None:
        self.filter.value, self._searching = "", False
        self.list.show(self.form, "")
        self.list.find(row)
        self._move(0)

    def _open_group(self, group: str, is_open: bool | None = None) -> None:
        """What a heading is for: fold it, or not; or put a table in, or back."""
        if group == MORE:
            self.action_table("add")
        elif self.form.groups[group].is_out:
            self.action_table("out")
        else:
            self.form.fold(group, is_open)
            self.fill()

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
        f = self.list.field
        if f is None and self.list.row is not None:
            self._open_group(self.list.row.group)
        elif f is not None and again and f.choices:
            self.form.choose(f.name, -1 if message.back else 1)
            self._changed()
        elif f is not None and again and is_long(f):
            self._open_text(f)
        self._place()
        self._tell()

    def on_field_list_scrolled(self) -> None:
        self._place()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input is self.filter:
            here = self.list.field
            self.list.show(self.form, self.filter.value)
            if self.list.field is not here:
                self.list.first()
            self._move(0)
        elif (f := self.list.field) is not None and self.value.edits(f):
            self.form.set(f.name, self.value.value)  # as it is by now, not when the message was sent
            self._changed()

    # Actions of the table

    def action_filter(self) -> None:
        self._searching = True
        self.filter.focus()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        self._searching = event.widget is self.filter

    def action_undo(self, to_default: bool = False) -> None:
        """The field's text as the preset has it, or as the schema does."""
        if self.list.field is not None:
            self.form.reset(self.list.field.name, to_default=to_default)
            self._changed()

    def action_table(self, what: str) -> None:
        adding.act(self, what)

    def action_start(self) -> None:
        if (config := self.right()) is not None:
            self.post_message(self.Ready(config))

    def action_save(self) -> None:
        if (config := self.right()) is not None:
            keeping.ask(self, self.preset, config, self._kept)

    def _kept(self, name: str, config: Config) -> None:
        """From here on changes are told from what was saved."""
        self.preset, self.form = name, Form(config, self.form.facts)
        self.fill()

    def right(self) -> Config | None:
        """The configuration. Where there is none, says why and goes to the first thing that is wrong."""
        wrong = self.form.problems
        if not wrong:
            return self.form.config
        name = next(iter(wrong))
        more = f" (and {plural(len(wrong) - 1, 'other')})" if len(wrong) > 1 else ""
        self.notify(one_line(f"{name}: {wrong[name]}{more}"), severity="error", markup=False, timeout=10)
        self.form.show(name)
        self._go_to(name)
        return None

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
