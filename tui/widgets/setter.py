"""Settings to choose from, and a field in which the chosen one is changed; what is wrong is told beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input

from engine.events import EditApplied
from tui import steering
from tui.text import one_line
from tui.theme import palette
from tui.widgets.choice import Choice
from tui.widgets.painted import Painted

if TYPE_CHECKING:
    from engine.steering.edits import Setting


class Setter(Vertical):
    """`Wanted` asks for a change; whoever makes it says `close` or `refuse`."""

    DEFAULT_CSS = """
    Setter { height: 1fr; }
    Setter Choice { height: 1fr; }
    Setter Painted { height: 4; background: $surface; }
    Setter Input { background: $panel; }
    """

    class Wanted(Message):
        """A key is to have another value."""

        def __init__(self, key: str, value: str) -> None:
            super().__init__()
            self.key, self.value = key, value

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.settings: dict[str, Setting] = {}
        self.editing = ""
        """The key in the field; empty where none is."""

    def compose(self) -> ComposeResult:
        self.choice = Choice(id="settings")
        self.about = Painted(id="about-setting", focusable=False)
        self.field = Input(compact=True, id="value")
        self.field.display = False
        yield self.choice
        yield self.about
        yield self.field

    def show(self, settings: Sequence[Setting], edits: Sequence[EditApplied], cells: int) -> None:
        self.settings = {setting.key: setting for setting in settings}
        self.choice.show(steering.setting_entries(settings, edits, cells, palette(self.app.theme)))
        self._tell()

    def open(self) -> None:
        """The chosen setting's value, to be changed."""
        setting = self.settings.get(self.choice.chosen)
        if setting is not None:
            self.editing = setting.key
            self.field.value, self.field.display = one_line(setting.value), True
            self.screen.set_focus(self.field)  # at once: what is typed meanwhile is meant for it
            self._tell()

    def close(self) -> None:
        self.editing = ""
        if self.field.has_focus:
            self.screen.set_focus(self.choice)
        self.field.display = False
        self._tell()

    def refuse(self, why: str) -> None:
        """The value stays in the field, to be mended; what is typed at once takes its place."""
        self.field.select_all()
        self._tell(why)

    def on_choice_moved(self, message: Choice.Moved) -> None:
        if self.editing and self.editing != self.choice.chosen:
            self.close()
        self._tell()

    def on_input_changed(self) -> None:
        if self.editing:
            self._tell()

    def on_input_submitted(self) -> None:
        if not self.editing:
            return
        setting, value = self.settings.get(self.editing), self.field.value.strip()
        if setting is not None and value == setting.value:
            self.close()
        else:
            self.post_message(self.Wanted(self.editing, value))

    def _tell(self, error: str = "") -> None:
        setting = self.settings.get(self.editing or self.choice.chosen)
        colours = palette(self.app.theme)
        self.about.show(steering.about(setting, error, self.about.cells, colours) if setting else [])
