"""What a run that failed or waits says across the screen: why, and what to do."""

from __future__ import annotations

from tui.text import one_line, wrap
from tui.theme import Palette, style
from tui.widgets.painted import Line


def failure(reason: str, folder: str, kept: int | None, cells: int, colours: Palette) -> list[Line]:
    """Why a run failed and what to do, as a banner. `kept` is the step of its newest sound checkpoint."""
    told = wrap(f"✗ The run failed: {one_line(reason, 600) or 'no reason was given'}", cells - 2)
    begins = "It has no checkpoint yet" if kept is None else f"Step {kept} is kept"
    todo = wrap(
        f"{begins}. Mend the cause, then resume it from here (space), or with other settings by "
        f"selfplay-tui resume {one_line(folder)} --set KEY=VALUE",
        cells - 4,
    )
    return [
        *(((f" {line}", style(colours.bad, bold=True)),) for line in told[:5]),
        *(((f"   {line}", style(colours.text)),) for line in todo),
    ]


def held_up(reason: str, cells: int, colours: Palette) -> list[Line]:
    """Why a run pauses by itself, as a banner."""
    told = wrap(f"! The run waits: {one_line(reason, 600)}", cells - 2)
    todo = wrap("Nothing is lost. Mend the cause, then go on (space).", cells - 4)
    return [
        *(((f" {line}", style(colours.watch, bold=True)),) for line in told[:5]),
        *(((f"   {line}", style(colours.text)),) for line in todo),
    ]
