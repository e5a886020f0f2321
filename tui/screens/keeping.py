"""Saving a configuration as a preset of the user's own: what would be lost is asked about first."""

from __future__ import annotations

from collections.abc import Callable

from textual.screen import Screen

import presets
from engine.config import Config
from engine.steering.drafts import brief
from tui.screens.dialog import Confirm
from tui.screens.texts import AskName
from tui.text import one_line

Done = Callable[[str, Config], None]
"""What is told the name and the configuration that were written under it."""


def ask(screen: Screen[None], name: str, config: Config, done: Done) -> None:
    """Asks for a name, proposing one's own preset's again, and for another's one like it."""
    known = presets.available().get(name)
    proposed = name if known is not None and known.source == presets.YOURS else f"my-{name}"
    _ask(screen, proposed, f"It goes into {presets.user_folder()}", config, done)


def _ask(screen: Screen[None], proposed: str, words: str, config: Config, done: Done) -> None:
    def named(answer: str | None) -> None:
        if answer is not None:
            keep(screen, answer, config, done)

    screen.app.push_screen(AskName("Save as a preset", words, proposed), named)


def keep(screen: Screen[None], name: str, config: Config, done: Done, *, replace: bool = False) -> None:
    """Writes what differs from the defaults into the user's folder; tells `done` when it is written, and asks again
    with the reason where it can't be."""
    try:
        path = presets.save(name, brief(config), replace=replace)
    except presets.TakenError:
        words = f"There is a preset {one_line(name)} of yours already. What it says now would be lost."

        def answered(yes: bool | None) -> None:
            if yes:
                keep(screen, name, config, done, replace=True)

        screen.app.push_screen(Confirm(f"Replace {name}?", words, "Replace it"), answered)
    except presets.KeepError as error:
        _ask(screen, name, f"{error}", config, done)  # with the name, to be mended
    else:
        done(name, config)
        screen.notify(one_line(f"Saved in {path}; Home lists it among yours."), markup=False)
