"""Who watches a run, and what they are told."""

from __future__ import annotations

from collections.abc import Iterable

from engine.arena import Arena
from engine.events import Event, EventStream, Notice
from engine.store import Store


class Watchers:
    """The streams of those who watch. Tokens and turns are collected only while somebody looks at them live."""

    def __init__(self, arena: Arena, store: Store) -> None:
        self._arena, self._store = arena, store
        self._streams: list[EventStream] = []
        self._warned: set[str] = set()

    def add(self, *, live: bool) -> EventStream:
        """A stream of events from now on; without `live` only facts."""
        stream = EventStream(live=live, on_drain=self._arena.report if live else None)
        self._streams.append(stream)
        self._listen()
        return stream

    def remove(self, stream: EventStream) -> None:
        self._streams.remove(stream)
        self._listen()

    def tell(self, event: Event) -> None:
        for stream in self._streams:
            stream.put(event)

    def warn(self, step: int, text: str) -> None:
        """Tell a warning that the record has, as of this step."""
        notice = Notice(text, "warning")
        self._store.record_notice(step, notice)
        self.tell(notice)

    def warn_once(self, step: int, texts: Iterable[str]) -> None:
        """Of these, those of which nobody was warned yet."""
        for text in texts:
            if text not in self._warned:
                self._warned.add(text)
                self.warn(step, text)

    def _listen(self) -> None:
        self._arena.on_event = self.tell if any(stream.live for stream in self._streams) else None
