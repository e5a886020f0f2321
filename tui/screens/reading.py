"""What keys of the run screen do to the transcript: turns, their heat, and why they weigh what they weigh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.reading.tracing import Trace
from engine.rows import StoredEpisode
from engine.types import Completion, Rollout, Turn
from tui import clipboard
from tui.commands import give, say
from tui.text import one_line
from tui.transcript.turns import plain, plain_turn
from tui.views import EpisodeView

if TYPE_CHECKING:
    from tui.screens.run import RunScreen
    from tui.screens.why import Place


def act(screen: RunScreen, what: str) -> None:
    """Does it."""
    reader = screen.transcript
    match what:
        case "before":
            reader.move(-1)
        case "after":
            reader.move(1)
        case "heat":
            reader.next_heat()
        case "copy" | "copy_all":
            give(screen, _copy(screen, whole=what == "copy_all"))
        case "why":
            _ask_why(screen)


async def trace(screen: RunScreen, rollout_id: str) -> Trace | None:
    """An episode as the run knows it, or else, while its batch is in play, as it is remembered."""
    found = await screen.session.run.trace(rollout_id)
    view = screen.store.episodes.get(rollout_id)
    return _remembered(view, screen.store.step) if found is None and view is not None else found


async def _copy(screen: RunScreen, *, whole: bool) -> None:
    episode, turn = screen.transcript.episode, screen.transcript.turn
    if episode is None or (turn is None and not whole):
        say(screen, f"There is no {'transcript' if whole else 'turn'} to copy yet.", "warning")
        return
    text, what = plain(episode, screen.store), "Transcript"
    if turn is not None and not whole:
        text, what = plain_turn(turn, episode, screen.store) + "\n", f"Turn {turn.index + 1}"
    by = await clipboard.copy(text, screen.app.copy_to_clipboard)
    say(screen, f"{what} of {one_line(episode.id, 30)} copied by {by}.")


def _ask_why(screen: RunScreen) -> None:
    from tui.screens.why import Place, WhyScreen  # a run's first frame would wait for it

    episode, turn = screen.transcript.episode, screen.transcript.turn
    if episode is None or turn is None:
        say(screen, "There is no turn to explain yet.", "warning")
        return

    async def look_up(rollout_id: str) -> Trace | None:
        return await trace(screen, rollout_id)

    def chosen(place: Place | None) -> None:
        if place is not None:
            screen.read(place.rollout_id, place.turn)

    screen.app.push_screen(WhyScreen(Place(episode.id, turn.index), look_up), chosen)


def _remembered(view: EpisodeView, step: int) -> Trace:
    rollout = view.rollout or Rollout(
        view.id,
        view.type,
        turns=[
            Turn(t.role, t.index, t.messages, Completion("", player=t.player), credit=t.credit) for t in view.turns
        ],
        edits=view.edits,
        players=view.roles,
    )
    expected = step if view.is_evaluation else view.step or step + 1
    return Trace(
        StoredEpisode(rollout, expected, view.is_evaluation, view.parent, view.is_trainable), is_over=not view.live
    )
