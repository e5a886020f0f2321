"""Which episode the run screen reads while nobody has chosen one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.views import EpisodeView

if TYPE_CHECKING:
    from tui.screens.run import RunScreen

LINGER = 2.5
"""Seconds that following stays with an episode after it ended, so that its end can be read."""


def look(screen: RunScreen) -> None:
    """While following, moves on to an episode in play once the last one has been read."""
    shown = screen.transcript.episode
    if shown is not None and (not screen.follow or shown.ended is None):
        return
    if shown is not None and shown.ended is not None and screen.store.clock() - shown.ended < LINGER:
        return
    chosen = _next(screen)
    if chosen is not None and (screen.follow or not screen.transcript.rollout_id):
        screen._focus_on(chosen.id)


def toggle(screen: RunScreen) -> None:
    """Follows from now on, or no longer."""
    screen.follow = not screen.follow
    if screen.follow:
        screen.transcript.follow_end()
        shown = screen.transcript.episode
        chosen = _next(screen)
        if chosen is not None and (shown is None or not shown.live):
            screen._focus_on(chosen.id)


def _next(screen: RunScreen) -> EpisodeView | None:
    """The episode to follow: one whose row is in sight, so that the wall keeps still, or else any."""
    screen.wall.update()
    episodes = screen.store.episodes
    seen = [episodes[name] for name in screen.wall.in_sight() if name in episodes]
    live = newest([e for e in seen if e.live]) or newest(screen.store.live())
    return live or (newest(seen) if screen.transcript.episode is None else None)


def newest(live: list[EpisodeView]) -> EpisodeView | None:
    """The episode to follow: the one begun last, of those that are learnt from where there are any."""
    for candidates in ([e for e in live if e.is_trainable and not e.depth], live):
        if candidates:
            return max(candidates, key=lambda episode: episode.begun)
    return None
