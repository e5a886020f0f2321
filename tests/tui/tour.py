"""A tour of the app in tmux, on a real run, as a person would take it: `python -m tests.tui.tour [--watch]`.

Each stop says what is done, what is pressed, and what must then be on the screen. With `--watch` stops are longer,
to look on from another window by the command it prints.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

STOPS: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = [
    ("Home lists the presets; the first is nim-pocket", (), ("nim-pocket", "Nothing yet.")),
    ("Start it", ("Enter",), ("1 Episodes", "running", "Nim.")),
    ("It learns", (), ("step 2/",)),
    # steer
    ("Pause", ("Space",), ("paused",)),
    ("Edit a prompt", ("p",), ("Edit a prompt",)),
    ("Write", ("'Take care. '",), ("Take care.",)),
    ("Apply: it is numbered and marked", ("C-s",), ("Edit 1",)),
    ("Keep a checkpoint", ("C-s",), ("checkpoints/step-",)),
    ("See settings, edits and checkpoints", ("s",), ("Steer nim-1", "learning_rate")),
    ("Go on from here", ("Space", "Escape"), ("1 Episodes", "running")),
    # play
    ("Sit down against the policy", ("x",), ("Play nim-1", "You speak for")),
    ("Begin", ("Enter",), ("your move",)),
    ("Take the first move there is", ("Down", "Enter"), ("First, you",)),
    ("Leave the game: it asks, for it isn't over", ("Escape",), ("Leave?",)),
    ("Leave", ("Enter",), ("You speak for",)),
    ("And the table", ("Escape",), ("1 Episodes",)),
    # read, search, copy
    ("The transcript alone, and back", ("2", "m"), ("Transcript",)),
    ("Copy it", ("y",), ("copied by",)),
    ("All panes again", ("Escape",), ("1 Episodes", "4 Plots")),
    ("Jump: letters on the panes", ("C-o",), (" a ", " s ")),
    ("To the first", ("a",), ("1 Episodes",)),
    ("Read the record, step by step", ("o",), ("replay, read only", "Interesting")),
    ("Search in every transcript", ("/",), ("search all transcripts",)),
    ("For a move", ("'[2]'",), ("turns from step",)),
    ("Close, and back to the run", ("Escape", "Escape"), ("1 Episodes",)),
    ("What do the keys do here?", ("?",), ("Pause the run, or resume it",)),
    ("Close", ("Escape",), ("1 Episodes",)),
    ("Another theme", ("t",), ("Paper",)),
    # leave
    ("Ctrl+C asks", ("C-c",), ("Quit?", "stopped cleanly")),
    ("Stay", ("Escape",), ("1 Episodes",)),
    ("Quit", ("C-q",), ("nim-1 is saved in", "left with 0")),
]
"""What is done; keys as tmux names them, words to type in quotes; what is on the screen then."""


class Tour:
    """A tmux session with the app in it, everything it keeps in a folder of its own."""

    def __init__(self, folder: Path, name: str, columns: int = 160, lines: int = 45) -> None:
        self.name = name
        home = {
            "SELFPLAY_RUNS_DIR": folder / "runs",
            "XDG_CONFIG_HOME": folder / "config",
            "XDG_STATE_HOME": folder / "state",
            "PYTHONPATH": Path(__file__).parents[2],
        }
        settings = " ".join(f"{variable}={shlex.quote(str(value))}" for variable, value in home.items())
        app = f"env {settings} {shlex.quote(sys.executable)} -m tui.cli; echo left with $?; exec sleep 600"
        self._tmux("new-session", "-d", "-s", name, "-x", str(columns), "-y", str(lines), app)

    def press(self, *keys: str) -> None:
        for key in keys:
            typed = key.startswith("'")
            self._tmux("send-keys", "-t", self.name, *(("-l", key.strip("'")) if typed else (key,)))
            time.sleep(0.7)  # tmux and terminals tell Escape from what follows it by a pause

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", self.name)

    def until(self, words: tuple[str, ...], seconds: float = 90.0) -> None:
        deadline = time.monotonic() + seconds
        while not all(word in (shown := self.screen()) for word in words):
            if time.monotonic() > deadline:
                missing = [word for word in words if word not in shown]
                raise AssertionError(f"{missing} not on the screen within {seconds:.0f} s:\n{shown}")
            time.sleep(0.2)

    def close(self) -> None:
        subprocess.run(["tmux", "kill-session", "-t", self.name], capture_output=True)

    def _tmux(self, *arguments: str) -> str:
        return subprocess.run(["tmux", *arguments], capture_output=True, text=True, check=True).stdout


def take(folder: Path, name: str, say: Callable[[str], None], pause: float = 0.0) -> None:
    """The whole tour. Raises `AssertionError` at the first stop that doesn't show what it should."""
    tour = Tour(folder, name)
    try:
        for number, (what, keys, shown) in enumerate(STOPS, 1):
            say(f"{number:>2}. {what}{f'  ({chr(32).join(keys)})' if keys else ''}")
            tour.press(*keys)
            tour.until(shown)
            time.sleep(pause)
    finally:
        tour.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--watch", action="store_true", help="a second longer at each stop")
    chosen = parser.parse_args()
    if shutil.which("tmux") is None:
        parser.error("tmux isn't installed")
    name = f"selfplay-tour-{os.getpid()}"
    if chosen.watch:
        print(f"tmux attach -r -t {name}")
    with tempfile.TemporaryDirectory(prefix="tour-") as folder:
        take(Path(folder), name, lambda text: print(text, flush=True), 1.0 if chosen.watch else 0.0)
    print("the tour is over; everything was there")


if __name__ == "__main__":
    os.environ.pop("TMUX", None)  # a session within a session is fine here
    main()
