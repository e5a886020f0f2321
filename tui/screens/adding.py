"""Tables put into a form and taken out: which there are is shown, and what becomes of `[task]` is asked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from engine.steering import tables
from tui.form.offers import Offer, matching, offer_line, offers
from tui.text import one_line, wrap
from tui.theme import Palette, palette, style
from tui.widgets.painted import Line, Painted
from tui.widgets.picklist import PickList

if TYPE_CHECKING:
    from tui.screens.form import FormScreen

HINT = "filter by name or what it does; or ./file.py:name, for one of your own"


class Offers(ModalScreen[Offer | None]):
    """A list to choose from, with a filter. Enter or a second click takes the chosen one; None if it was left."""

    CSS_PATH = "adding.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave", priority=True)]

    def __init__(self, found: Sequence[Offer]) -> None:
        super().__init__()
        self.found = self.shown = list(found)

    def compose(self) -> ComposeResult:
        with Vertical(classes="offers"):
            yield Static(Content("Add a reward function or a task"), classes="title")
            yield Input(placeholder=HINT, compact=True, id="offer-filter")
            yield PickList(id="offer-list")
            yield Painted(id="offer-help", focusable=False)
            with Horizontal(classes="buttons"):
                yield Button(Content("Add ⏎"), id="yes", variant="primary", compact=True)
                yield Button(Content("Cancel esc"), id="no", compact=True)

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self.call_after_refresh(self._show)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    @property
    def chosen(self) -> Offer | None:
        place = self.query_one(PickList).place
        return self.shown[place] if 0 <= place < len(self.shown) else None

    def _show(self) -> None:
        chosen, listed = self.chosen, self.query_one(PickList)
        self.shown = matching(self.found, self.query_one(Input).value)
        listed.nothing = [((" Nothing passes the filter.", style(palette(self.app.theme).soft)),)]
        listed.show(len(self.shown), self._paint, self.shown.index(chosen) if chosen in self.shown else 0)
        self._tell()

    def _paint(self, place: int, cells: int, colours: Palette, chosen: bool) -> list[Line]:
        return [offer_line(self.shown[place], cells, colours, chosen)]

    def _tell(self) -> None:
        told, colours, offer = self.query_one("#offer-help", Painted), palette(self.app.theme), self.chosen
        words = wrap(one_line(offer.help), told.cells - 2) if offer else []
        title: list[Line] = [((f" {one_line(offer.title)}", style(colours.text, bold=True)),)] if offer else []
        told.show([*title, *(((f" {line}", style(colours.soft)),) for line in words)])

    def on_key(self, event: events.Key) -> None:
        listed = self.query_one(PickList)
        page = max(listed.size.height - 1, 1)
        step = {"up": -1, "down": 1, "pageup": -page, "pagedown": page}.get(event.key)
        if step is not None:
            listed.action_move(step)
            event.stop()

    def on_pick_list_picked(self, message: PickList.Picked) -> None:
        self._tell()
        if message.opened:
            self._take()

    def on_input_changed(self) -> None:
        self._show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._take()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "yes":
            self._take()
        else:
            self.dismiss(None)

    def _take(self) -> None:
        if self.chosen is not None:
            self.dismiss(self.chosen)

    def action_leave(self) -> None:
        self.dismiss(None)


class AskWeight(ModalScreen[float | None]):
    """Asks with which weight a task comes beside the one there is; None if it was left."""

    CSS_PATH = "dialog.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave", priority=True),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
    ]

    def __init__(self, task: str, other: str) -> None:
        super().__init__()
        self._names = one_line(task, 40), one_line(other, 40)

    def compose(self) -> ComposeResult:
        task, other = self._names
        words = (
            f"Trained on, {task} and {other} share the episodes by weight. {other} becomes one of [tasks], so its "
            f"roles and metrics begin with its name.\n\nOnly measured, {task} shows in evaluations what is "
            "transferred or forgotten; nothing is learnt from it."
        )
        with Vertical(classes="dialog"):
            yield Static(Content(f"{task} beside {other}"), classes="title")
            yield Static(Content(words), classes="words")
            with Horizontal(classes="buttons"):
                yield Button(Content("Train on both"), id="both", variant="primary", compact=True)
                yield Button(Content("Only measure it"), id="measure", compact=True)
                yield Button(Content("Cancel"), id="no", compact=True)

    def on_mount(self) -> None:
        self.query_one("#both", Button).focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss({"both": 1.0, "measure": 0.0}.get(event.button.id or ""))

    def action_leave(self) -> None:
        self.dismiss(None)


def act(screen: FormScreen, what: str) -> None:
    """`"add"` asks for a table and puts it in; `"out"` takes out that under the cursor, or puts it back."""
    if what == "add":
        form = screen.form
        screen.app.push_screen(Offers(offers(form.facts.functions, form.latest)), partial(_chosen, screen))
    else:
        _take_out(screen)


def _chosen(screen: FormScreen, offer: Offer | None) -> None:
    config = screen.form.latest
    if offer is None:
        return
    if offer.section == "rewards":
        place, table = tables.reward(offer.name, config)
        screen.form.put(place, table)
        screen.went_to(place)
    elif config.task is None:
        _put_task(screen, offer.name, 1.0)
    else:
        asked = AskWeight(offer.name, config.task.name)
        screen.app.push_screen(asked, lambda weight: _put_task(screen, offer.name, weight))


def _put_task(screen: FormScreen, task: str, weight: float | None) -> None:
    form = screen.form
    if weight is None:
        return
    if weight and form.latest.task is not None:
        if screen.right() is None:  # what is typed would be lost where it can't be read
            return
        form.mix()
    place, table = tables.part(task, form.latest, weight)
    form.put(place, table)
    screen.went_to(place)


def _take_out(screen: FormScreen) -> None:
    row, form = screen.list.row, screen.form
    place = row.group if row is not None else ""
    if place in form.groups and form.groups[place].is_out:
        form.put_back(place)
    elif form.can_be_out(place):
        form.take_out(place)
    else:
        screen.notify("Only a reward, a task or a role that no task has can be taken out.", markup=False)
        return
    screen.went_to(place)
