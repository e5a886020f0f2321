"""Which task, for which roles, against whom: three lists side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tui.text import one_line
from tui.theme import sign
from tui.widgets.entries import Entries

if TYPE_CHECKING:
    from engine.sitting.company import Opponent, Place


class Seating(Horizontal):
    """What is highlighted is chosen; of roles several can be marked.

    By mouse, a second click marks a role, or says `Wanted` of an opponent: to begin with it.
    """

    class Wanted(Message):
        """It may begin."""

    def __init__(self, places: Sequence[Place], opponents: Sequence[Opponent], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.places, self.opponents = places, opponents
        self.marked: set[str] = set()
        self._tasks = OptionList(id="tasks", markup=False, compact=True)
        self._roles = Entries(id="roles", markup=False, compact=True)
        self._players = Entries(id="players", markup=False, compact=True)

    def compose(self) -> ComposeResult:
        lists = {"Task": self._tasks, "You speak for": self._roles, "Against": self._players}
        for heading, choices in lists.items():
            with Vertical(id=f"{choices.id}-column"):
                yield Static(Content(heading), classes="heading")
                yield choices

    def on_mount(self) -> None:
        self._tasks.add_options(Option(Content(f" {one_line(place.name, 40)}")) for place in self.places)
        self._tasks.highlighted = 0
        self.query_one("#tasks-column").display = len(self.places) > 1
        self._fill_roles()
        self.offer(self.opponents)

    @property
    def place(self) -> Place:
        return self.places[self._tasks.highlighted or 0]

    @property
    def roles(self) -> list[str]:
        """Those the person speaks for: the marked ones, or else the highlighted one."""
        known = self.place.roles
        return [role for role in known if role in self.marked] or [known[self._roles.highlighted or 0]]

    @property
    def opponent(self) -> str:
        return self.opponents[self._players.highlighted or 0].player

    def offer(self, opponents: Sequence[Opponent]) -> None:
        """Those there are now; who was chosen stays chosen, if still among them."""
        chosen, self.opponents = self.opponent, opponents
        broad = max(len(one_line(opponent.player, 20)) for opponent in opponents)
        self._players.clear_options()
        self._players.add_options(
            Option(Content(f" {one_line(opponent.player, 20):<{broad}}  {one_line(opponent.about, 60)}"))
            for opponent in opponents
        )
        names = [opponent.player for opponent in opponents]
        self._players.highlighted = names.index(chosen) if chosen in names else 0

    def begin(self) -> None:
        """The keys are for these lists."""
        self._roles.focus()

    def mark(self) -> None:
        """One role more, or one less."""
        self.marked ^= {self.place.roles[self._roles.highlighted or 0]}
        self._fill_roles()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_list is self._tasks:
            self.marked &= set(self.place.roles)
            self._fill_roles()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_list is self._roles:
            self.mark()
        elif event.option_list is self._players:
            self.post_message(self.Wanted())

    def _fill_roles(self) -> None:
        here, roles = self._roles.highlighted or 0, self.place.roles
        self._roles.clear_options()
        for place, role in enumerate(roles):
            tick = "✓" if role in self.marked else " "
            self._roles.add_option(Option(Content(f" {tick} {sign(place)} {one_line(role, 40)}")))
        self._roles.highlighted = min(here, len(roles) - 1)
