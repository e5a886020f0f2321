"""What a watcher's stream holds, and when it asks for more."""

from __future__ import annotations

from engine.events import EventStream, Notice, TokensSampled


def test_tokens_of_a_turn_come_as_one_event_however_often_they_were_told():
    stream = EventStream()
    for token in range(3):
        stream.put(TokensSampled("1", 0, [token], [-float(token)]))
    stream.put(TokensSampled("1", 1, [7], [0.0]))
    assert stream.drain() == [
        TokensSampled("1", 0, [0, 1, 2], [0.0, -1.0, -2.0]),
        TokensSampled("1", 1, [7], [0.0]),
    ]


def test_who_takes_events_asks_for_more_and_who_finds_none_doesnt():
    asked = []
    stream = EventStream(on_drain=lambda: asked.append(len(asked)))
    stream.drain()
    assert asked == []
    stream.put(Notice("something"))
    stream.drain()
    stream.drain()
    assert asked == [0]
