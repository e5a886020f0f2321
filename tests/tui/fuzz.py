"""Hostile text through a screen of the app in a real terminal: `python -m tests.tui.fuzz SCOPE [--harmless]`.

Prints nothing of its own: what comes out of the terminal is what Textual wrote, and `kinds` tells which sequences.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import unicodedata
from itertools import cycle
from typing import Any

from textual.pilot import Pilot

from engine.events import Notice
from engine.types import Role
from tests.tui.demo import app as demo_app
from tests.tui.fake import FakeRun
from tests.tui.hostile import many
from tests.tui.look import play, still
from tests.tui.openers import opened
from tui.actions import Scope
from tui.app import SelfPlayApp
from tui.screens.run import RunScreen
from tui.text import one_line

SEQUENCE = re.compile(
    r"\x1b\[(?P<parameters>[0-9;:<=>?]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    r"|\x1b\](?P<command>[^\x07\x1b]*)(?:\x07|\x1b\\)"
    r"|\x1b(?P<other>[^\[\]])"
)

FORBIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}

TOGETHER = 8
"""Strings said in one turn."""


def kinds(output: str) -> set[str]:
    """The kinds of sequences in what was written: of a style its codes but colours, of a place nothing."""
    found = set()
    for match in SEQUENCE.finditer(output):
        if match["final"] == "m":
            codes = re.sub(r"[34]8;(2;\d+;\d+;\d+|5;\d+)", "", match["parameters"] or "0")
            found |= {f"style {code}" for code in codes.split(";") if code}
        elif match["final"] == "H":
            numbers = [int(number or 1) for number in match["parameters"].split(";")]
            found.add("place" if all(number <= 200 for number in numbers) else f"place {numbers}")
        elif match["final"]:
            found.add(f"CSI {match['parameters']}{match['between']}{match['final']}")
        elif match["command"] is not None:
            found.add(f"OSC {match['command'].partition(';')[0]}")
        else:
            found.add(f"ESC {match['other']}")
    return found


def unseen(output: str) -> set[str]:
    """Characters outside of sequences that no text for a person has."""
    text = SEQUENCE.sub("", output)
    return {character for character in text if unicodedata.category(character) in FORBIDDEN} - {"\n", "\r"}


def run_of(strings: list[str]) -> FakeRun:
    """A run in which everything that has a text has one of these."""
    said = cycle(strings)

    def reply(rng: random.Random, sticks: int, skill: float) -> tuple[str, int]:
        return "\n".join(next(said) for _ in range(TOGETHER)), rng.randint(1, 3)

    run = still(episodes=24, reply=reply, tokens_per_tick=10_000_000, name=one_line(strings[7])[:40] or "x")
    run.config = run.config.model_copy(update={"title": strings[5] + strings[20], "teaches": strings[8]})
    for role in run.roles:
        run.roles[role] = Role(role, "\n".join(next(said) for _ in range(600)))
    return run


async def drive(pilot: Pilot[Any], run: FakeRun, scope: Scope, strings: list[str]) -> None:
    """Opens the screen and pages through it; on the run's own screen, reads every episode."""
    app = pilot.app
    assert isinstance(app, SelfPlayApp)
    await opened(pilot, run, scope)
    for text in strings[:: max(len(strings) // 12, 1)]:
        run.emit(Notice(text, "warning"))
        app.say(text)
    for key in ("pagedown",) * 8 + ("tab",) + ("pagedown",) * 8 + ("up", "down", "left", "right"):
        await pilot.press(key)
    read: set[str] = set()
    while scope == "run" and TOGETHER * 4 * len(read) < len(strings):
        await play(pilot, run, 4)
        assert isinstance(app.screen, RunScreen)
        for episode in list(app.screen.store.episodes.values()):
            if episode.id not in read and not episode.live:
                read.add(episode.id)
                app.screen.follow = False
                app.screen._focus_on(episode.id)
                app.screen.transcript.update()
                app.screen.wall.update()
                await pilot.pause()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scope")
    parser.add_argument("--harmless", action="store_true")
    chosen = parser.parse_args()
    strings = ["a harmless text"] * 200 if chosen.harmless else many()
    run = run_of(strings)
    app = demo_app(start=run)

    async def piloted(pilot: Pilot[Any]) -> None:
        await drive(pilot, run, chosen.scope, strings)
        app.exit()

    app.run(auto_pilot=piloted)
    sys.exit(app.return_code)


if __name__ == "__main__":
    main()
