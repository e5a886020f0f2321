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

from engine.types import Role
from tests.tui.fake import FakeRun
from tests.tui.hostile import many
from tests.tui.look import play, play_to, still
from tests.tui.parade import PARADES
from tests.tui.parade_live import presets, runs, sayings
from tui.actions import Scope
from tui.app import SelfPlayApp
from tui.text import one_line

SEQUENCE = re.compile(
    r"\x1b\[(?P<parameters>[0-9;:<=>?]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    r"|\x1b\](?P<command>[^\x07\x1b]*)(?:\x07|\x1b\\)"
    r"|\x1b(?P<other>[^\[\]])"
)

FORBIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}

TAG = "¤"
"""Stands before the number of a string."""


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


def tagged(strings: list[str]) -> list[str]:
    """Each with its number before it, so that what came out tells which were shown."""
    return [f"{TAG}{number:04x} {text}" for number, text in enumerate(strings)]


def shown(output: str) -> set[int]:
    """The numbers of the strings that were written to the terminal."""
    return {int(number, 16) for number in re.findall(f"{TAG}([0-9a-f]{{4}})", SEQUENCE.sub("", output))}


def run_of(strings: list[str]) -> FakeRun:
    """A run in which everything that has a text has one of these."""
    said = cycle(sayings(strings))

    def reply(rng: random.Random, sticks: int, skill: float) -> tuple[str, int]:
        return next(said), rng.randint(1, 3)

    run = still(episodes=24, reply=reply, tokens_per_tick=10_000_000, name=one_line(strings[7])[:40] or "x")
    run.config = run.config.model_copy(update={"title": strings[5] + strings[20], "teaches": strings[8]})
    for place, role in enumerate(run.roles):
        run.roles[role] = Role(role, "\n".join(strings[place:40:2]))
    return run


async def drive(pilot: Pilot[Any], run: FakeRun, scope: Scope, strings: list[str]) -> None:
    app = pilot.app
    assert isinstance(app, SelfPlayApp)
    await play_to(pilot, run, 1)
    await play(pilot, run, 8)
    await PARADES[scope](pilot, run, strings)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scope")
    parser.add_argument("--harmless", action="store_true")
    chosen = parser.parse_args()
    strings = tagged(["a harmless text"] * 400 if chosen.harmless else many())
    run = run_of(strings)
    app = SelfPlayApp(
        presets=lambda: presets(strings[:60]),
        runs=lambda: runs(strings[:60]),
        create=lambda _: run,
        resume=lambda _: run,
        start=run,
    )

    async def piloted(pilot: Pilot[Any]) -> None:
        await drive(pilot, run, chosen.scope, strings)
        app.exit()

    app.run(auto_pilot=piloted)
    sys.exit(app.return_code)


if __name__ == "__main__":
    main()
