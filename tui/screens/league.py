"""The league of a run: who is how strong, who got what against whom, and the games they played."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget

from engine.types import EngineError
from tui import clipboard
from tui.actions import bindings
from tui.commands import give, say
from tui.league import lines
from tui.league.reading import LeagueReading
from tui.league.standings import League, Played, why_nothing
from tui.session import Session
from tui.text import one_line, wrap
from tui.theme import Palette, palette, style
from tui.widgets.board import Board
from tui.widgets.ground import Ground
from tui.widgets.keybar import KeyBar
from tui.widgets.matrix import Matrix
from tui.widgets.painted import Line, OneLine, Painted, cut, spread
from tui.widgets.pane import Pane
from tui.widgets.panetabs import PaneTabs
from tui.widgets.picklist import PickList
from tui.words import plural

NAMES = ["Ratings", "Payoffs", "Games"]
RATINGS, PAYOFFS, GAMES = range(1, 4)

LOOK = 2.0
"""Seconds between two looks at whether there is more in the record."""

EACH = 8
"""Pages of the record after which what was read so far is shown."""


class LeagueScreen(Ground, Screen[str | None]):
    """Returns the id of the episode to read, or None."""

    CSS_PATH = "league.tcss"
    BINDINGS = bindings("league")
    AUTO_FOCUS = ""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.reading = LeagueReading(session.run.folder)
        self.kinds: list[str] = []
        self.kind = ""
        self.league: League | None = None
        self.games: list[Played] = []
        self.problem = ""
        self._busy = False

    def compose(self) -> ComposeResult:
        self.header = OneLine(id="header")
        self.tabs = PaneTabs(NAMES)
        self.ratings = Painted(id="ratings")
        self.matrix = Matrix(id="payoffs")
        self.list = PickList(id="games")
        bodies: list[Widget] = [self.ratings, self.matrix, self.list]
        ids = ["ratings-pane", "payoffs-pane", "games-pane"]
        panes = [
            Pane(number, name, body, id=pane)
            for number, (name, body, pane) in enumerate(zip(NAMES, bodies, ids, strict=True), 1)
        ]
        self.board = Board(panes[:1], panes[1], panes[2:], id="body")
        yield self.header
        yield self.tabs
        yield self.board
        yield KeyBar("league")

    def on_mount(self) -> None:
        self.board.go(RATINGS if self.board.narrow else PAYOFFS)
        self._read()
        self.set_interval(LOOK, self._read)

    def on_unmount(self) -> None:
        self.reading.close()

    # Reading

    def _read(self) -> None:
        if not self._busy and (self.is_current or self.league is None):
            self._busy = True
            self.run_worker(self._take_in(), group="league", exit_on_error=False)

    async def _take_in(self) -> None:
        """All that is new in the record; what is known is shown now and then."""
        pages = 0
        try:
            while await self.reading.take_in():
                pages += 1
                if pages % EACH == 0:
                    await self._show()
            if pages or self.league is None:
                await self._show()
        except EngineError as error:
            self.problem = f"{error}"
            self._draw()
        finally:
            self._busy = False

    async def _show(self) -> None:
        self.kinds = await self.reading.kinds()
        if self.kind not in self.kinds:
            self.kind = next(iter(self.kinds), "")
        league = await self.reading.league(self.kind) if self.kind else None
        self.league = league if league is not None and league.players else None
        self.problem = ""
        self._draw()

    # Drawing

    def _draw(self) -> None:
        colours = palette(self.app.theme)
        self.matrix.nothing = self._why(self.matrix.cells, colours)
        self.matrix.fill(self.league)
        cells = self.ratings.cells
        untold = self.reading.untold
        rated = lines.ratings(self.league, cells, colours, untold) if self.league is not None else None
        self.ratings.show(rated or self._why(cells, colours))
        self._draw_header(colours)
        self._draw_games()

    def _draw_header(self, colours: Palette) -> None:
        soft = style(colours.soft)
        name: Line = (
            (f" {one_line(self.session.run.name, 30)}", style(colours.accent, bold=True)),
            ("  league", soft),
        )
        right: Line = ((" ", None),)
        if self.kind:
            place = f", {self.kinds.index(self.kind) + 1} of {len(self.kinds)} kinds" if len(self.kinds) > 1 else ""
            right = ((f"{one_line(self.kind, 40)}{place} ", soft),)
        self.header.show(cut(spread(name, right, self.size.width), self.size.width))

    def _draw_games(self) -> None:
        pair, cell = self.matrix.pair, self.matrix.cell
        self.games = cell.games if cell is not None else []
        soft = style(palette(self.app.theme).soft)
        words = "They did not meet." if pair is not None else "No games."
        self.list.nothing = [((f" {words}", soft),)]
        games = self.games
        self.list.show(len(games), lambda place, *how: [lines.game(games[place], *how)])
        told: list[Line] = [(), (), ()]
        if self.league is not None and pair is not None:
            many = len(self.league.players)
            told = [
                ((plural(many, "player"), soft),),
                (("mean reward of the row · games", soft),),
                ((lines.pair(*pair, cell), soft),),
            ]
        for pane, line in zip(self.board.panes, told, strict=True):
            pane.title.show(line)
        self.tabs.show(self.board.active, told[self.board.active - 1])

    def _why(self, cells: int, colours: Palette) -> list[Line]:
        """Why there is nothing to show."""
        if self.problem:
            words, look = [f"✗ {one_line(self.problem)}"], style(colours.bad)
        else:
            run = self.session.run
            played = not self.reading.is_empty
            words = why_nothing(len(run.roles), run.config.eval.every, played, self.reading.untold)
            look = style(colours.soft)
        return [((f" {line}", look),) for told in words for line in [*wrap(told, max(cells - 2, 20)), ""]]

    # What is done

    def on_matrix_picked(self, message: Matrix.Picked) -> None:
        self.list.place = 0
        self._draw_games()
        if message.opened:
            self.action_pane(GAMES)

    def on_pick_list_picked(self, message: PickList.Picked) -> None:
        if message.opened:
            self.dismiss(self.games[message.place].id)

    def action_open(self) -> None:
        if self.league is None:
            say(self, "There is nobody to go to.")
        elif self.board.active == GAMES and self.games:
            self.dismiss(self.games[self.list.place].id)
        else:
            self.action_pane(PAYOFFS if self.board.active == RATINGS else GAMES)

    def action_kind(self) -> None:
        if len(self.kinds) < 2:
            say(self, "Players met in one kind of episode only." if self.kinds else "Nobody has met anybody yet.")
            return
        self.kind = self.kinds[(self.kinds.index(self.kind) + 1) % len(self.kinds)]
        self.run_worker(self._show(), group="kind", exclusive=True, exit_on_error=False)

    def action_copy(self) -> None:
        if self.league is None:
            say(self, "There is nothing to copy yet.", "warning")
        else:
            give(self, self._copy(lines.table(self.league)))

    async def _copy(self, text: str) -> None:
        say(self, f"The league is copied by {await clipboard.copy(text, self.app.copy_to_clipboard)}.")

    # Panes

    def action_pane(self, number: int) -> None:
        self.board.go(number)

    def action_maximise(self) -> None:
        if not self.board.maximise():
            say(self, "One pane is shown at a time in a terminal this small.")

    def action_back(self) -> None:
        if not self.board.restore():
            self.dismiss(None)

    def on_board_arranged(self, message: Board.Arranged) -> None:
        self.call_after_refresh(self._draw)

    def on_pane_tabs_wanted(self, message: PaneTabs.Wanted) -> None:
        self.action_pane(message.number)

    def on_resize(self, event: events.Resize) -> None:
        self.board.lay_out()
        self.call_after_refresh(self._draw)
