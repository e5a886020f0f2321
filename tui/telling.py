"""What of a run is told without being asked: its notices, its questions, and calls to who looks elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui import notices

if TYPE_CHECKING:
    from tui.app import SelfPlayApp
    from tui.session import Session

TOASTS = 3
"""Notices shown of those that come at once."""


class Telling:
    """Looks at a session once a frame; each thing is told once."""

    def __init__(self, app: SelfPlayApp) -> None:
        self._app = app
        self._news = notices.News()
        self._asked = False
        self.asked_before = False
        """Whether an episode ever asked something."""

    def look(self, session: Session) -> None:
        said = session.store.notices
        for _ in range(min(len(said), TOASTS)):
            notice = said.popleft()
            self._app.say(notice.text, notice.severity)
        if said:
            self._app.say(f"and {len(said)} more notices")
            said.clear()
        self._call_for_answers(session)
        if news := self._news.of(session):
            self._app.caller.call(news)

    def _call_for_answers(self, session: Session) -> None:
        """A bell when episodes begin to ask, and a word the first time; from then on the status line tells."""
        from tui.screens.questions import Questions

        asked = bool(session.run.questions)
        if asked and not self._asked and not isinstance(self._app.screen, Questions):
            self._app.bell()
            if not self.asked_before:
                self._app.say("An episode asks you something: press a on the run to answer.")
                self.asked_before = True
        self._asked = asked
