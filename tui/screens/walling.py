"""What keys of the run screen do to the wall: trees folded, a filter written; and the way to the league."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.widgets.filterline import FilterLine, open_line

if TYPE_CHECKING:
    from tui.screens.run import RunScreen


def act(screen: RunScreen, what: str) -> None:
    """Does it. Folds by left and right are meant for the wall only while the cursor is there."""
    wall = screen.wall
    match what:
        case "filter":
            screen.action_pane(1)
            open_line(wall)
        case "fold" if wall.has_focus:
            wall.fold()
        case "unfold" if wall.has_focus:
            wall.unfold()
        case "fold_all":
            wall.fold_all()


def end_filter(screen: RunScreen) -> bool:
    """Ends the wall's filter; False where none is in force, or the wall isn't in sight."""
    return screen.panes[0].display and any(line.clear() for line in screen.query(FilterLine))


def league(screen: RunScreen) -> None:
    """Shows it; the episode that is chosen there is read here."""
    from tui.screens.league import LeagueScreen

    def chosen(rollout_id: str | None) -> None:
        if rollout_id is not None:
            screen.read(rollout_id)

    screen.app.push_screen(LeagueScreen(screen.session), chosen)
