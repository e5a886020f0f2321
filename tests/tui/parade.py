"""Thousands of hostile strings led past a person: how each screen is given them, page after page.

A parade puts the strings wherever the screen shows what others wrote: names, prompts, replies, errors, edits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from textual.pilot import Pilot

from tests.tui import parade_live, parade_records
from tests.tui.fake import FakeRun
from tui.actions import Scope

Parade = Callable[[Pilot[Any], FakeRun, Sequence[str]], Awaitable[None]]

PARADES: dict[Scope, Parade] = {
    "home": parade_live.home,
    "form": parade_live.form,
    "compare": parade_records.compare,
    "run": parade_live.watched,
    "metrics": parade_live.metrics,
    "steer": parade_live.steer,
    "league": parade_records.league,
    "edit": parade_live.edit,
    "ask": parade_live.ask,
    "play": parade_live.sit,
    "why": parade_live.why,
    "replay": parade_records.replay,
    "search": parade_records.search,
    "app": parade_live.toasts,
}
