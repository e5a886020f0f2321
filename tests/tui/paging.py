"""What every parade does: strings in portions, keys pressed, views scrolled from end to end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from textual.events import Key
from textual.pilot import Pilot
from textual.widget import Widget

from tests.tui.fake import FakeRun
from tui.app import SelfPlayApp

T = TypeVar("T")

ROLES = ("First", "Second")

FRAME = 0.02
"""Seconds in which what a key changed is drawn."""


def portions(all_: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(all_), size):
        yield all_[start : start + size]


def packed(strings: Sequence[str], longest: int) -> Iterator[list[str]]:
    """As many at a time as are together no longer; one that is longer by itself comes alone.

    Of a text that is too long, screens leave out the middle.
    """
    pack: list[str] = []
    for text in strings:
        if pack and sum(map(len, pack)) + len(pack) + len(text) > longest:
            yield pack
            pack = []
        pack.append(text)
    if pack:
        yield pack


def whole(text: str) -> str:
    """What a task names its kinds and players: no halves of characters, which only a model's reply may have."""
    return text.encode("utf-8", "replace").decode()


def app_of(pilot: Pilot[Any]) -> SelfPlayApp:
    assert isinstance(pilot.app, SelfPlayApp)
    return pilot.app


async def tell(pilot: Pilot[Any], run: FakeRun, *events: Any) -> None:
    for event in events:
        run.emit(event)
    session = app_of(pilot).session
    assert session is not None
    session.drain()
    await drawn(pilot)


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """As the pilot does, but waiting only for a frame after each."""
    for key in keys:
        pilot.app.post_message(Key(key, None))
        await pilot.pause(FRAME)


async def drawn(pilot: Pilot[Any]) -> None:
    """Once what changed is painted: widgets tell their screen of it, which paints after that."""
    for _ in range(2):
        await pilot.pause(0)


async def through(pilot: Pilot[Any], view: Widget) -> None:
    """From the first of its lines to the last, each page painted."""
    top = 0
    while True:
        view.scroll_to(y=top, animate=False, immediate=True)
        await drawn(pilot)
        if top >= view.max_scroll_y:
            return
        top += max(view.size.height - 1, 1)
