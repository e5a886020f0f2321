"""Type-ahead: keys that come faster than the screen follows wait, and are given out one by one.

Textual gives out each key at once. A key with priority then overtakes letters that haven't reached their field yet,
`down` leaves a field before it has told what was written in it, and keys behind one that opens a dialog, or gives a
field the focus, go to what stood there before. Here the next key is given out once all that the one before led to
has come to rest: it was heard, what it caused has been told, and screens that it opened stand and have their focus.
What is done in threads and workers isn't waited for. A key that comes alone goes straight through; letters for a
field and a key that is held, which keep their order by themselves, go together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from textual.events import Event, Key
from textual.widget import Widget
from textual.widgets import Input, TextArea

if TYPE_CHECKING:
    from textual.app import App
    from textual.message_pump import MessagePump

PATIENCE = 2.0
"""Seconds that a key waits for the one before at most: a handler that hangs doesn't hold up those that leave."""


class TypeAhead:
    """The keys of an app that wait for their turn. The app asks `may_pass` of each that comes from outside."""

    def __init__(self, app: App[None]) -> None:
        self._app = app
        self._waiting: deque[Event] = deque()
        self._called: set[Event] = set()
        """Those whose turn it is."""
        self._task: asyncio.Task[None] | None = None

    def may_pass(self, event: Event) -> bool:
        """Whether it is its turn; otherwise it is kept, and posted to the app again when it is."""
        if event in self._called:
            self._called.remove(event)
            return True
        if self._task is not None:
            self._waiting.append(event)
            return False
        self._task = asyncio.create_task(self._give_out(event, self._place()), name="type-ahead")
        return True

    async def _give_out(self, last: Event, place: object) -> None:
        """Those that wait, once `last`, which found the app at `place`, has come to rest.

        A key that moved neither screen nor focus, and comes again, is taken not to do so either: it is held.
        """
        try:
            await self._rest()
            while self._waiting:
                given = self._take(last if self._place() == place else None)
                last, place = given[-1], self._place()
                self._called.update(given)
                for event in given:
                    self._app.post_message(event)
                await self._rest()
        finally:
            self._task = None

    def _take(self, held: Event | None) -> list[Event]:
        """The next, and those behind it that need no rest between: letters for a field, or the key that is held."""
        in_field = isinstance(self._app.focused, Input | TextArea)
        taken = [self._waiting.popleft()]
        while self._waiting:
            pair = taken[-1], self._waiting[0]
            if not (in_field and all(map(_is_letter, pair))) and not all(_is_same(held, event) for event in pair):
                break
            taken.append(self._waiting.popleft())
        return taken

    def _place(self) -> object:
        """Where keys go."""
        return (self._app.screen, self._app.focused) if self._app.screen_stack else None

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while pumps := self._pumps():
                    for pump in pumps:
                        await _pass(pump)
                    if pumps == self._pumps() and not any(pump.message_queue_size for pump in pumps):
                        return
        except TimeoutError:
            pass

    def _pumps(self) -> list[MessagePump]:
        """A key's way: from the app to what has the focus, and back. Before that, widgets still being made."""
        app = self._app
        if not app.is_running or not app.screen_stack:
            return []
        screen = app.screen
        unfinished = [widget for widget in screen.walk_children(Widget) if not widget.is_mounted]
        return [app, *unfinished, *(screen.focused or screen).ancestors_with_self]


async def _pass(pump: MessagePump) -> None:
    """Returns once it has dealt with all that waits in it now; at once where it takes no more."""
    passed = asyncio.Event()
    if pump.call_later(passed.set):
        await passed.wait()


def _is_letter(event: Event) -> bool:
    return isinstance(event, Key) and event.is_printable


def _is_same(held: Event | None, event: Event) -> bool:
    return isinstance(held, Key) and isinstance(event, Key) and held.key == event.key
