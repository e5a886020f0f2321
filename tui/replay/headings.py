"""What stands above the panes of a replay: whose record it is, where one is in it, and the gist of each pane."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tui.replay.feed import Entry
from tui.replay.pins import Pin
from tui.replay.record import Facts
from tui.replay.track import Track, marks
from tui.text import one_line
from tui.theme import Palette, style
from tui.views import EpisodeView
from tui.widgets.painted import BLANK, Line, spread
from tui.words import plural


def header(name: str, facts: Facts, follows: bool, cells: int, colours: Palette) -> Line:
    """The run, that nothing of it is changed here, and how it stands."""
    left: Line = (
        (f" {one_line(name, 30)}", style(colours.accent, bold=True)),
        (f"  {one_line(facts.title, 60)}", style(colours.soft)),
    )
    if facts.live:
        words = "at work, followed" if follows else "at work"
    else:
        words = facts.ended.state.value if facts.ended is not None else "interrupted"
    return spread(left, ((f"replay, read only · {words} ", style(colours.watch)),), cells)


def trouble(name: str, words: str, colours: Palette, bad: bool) -> Line:
    """In the header's place, while there is nothing to show."""
    mark = "✗ " if bad else ""
    return (
        (f" {one_line(name, 30)}  ", style(colours.accent, bold=True)),
        (mark + one_line(words), style(colours.bad if bad else colours.soft)),
    )


def scrubbed(facts: Facts, entries: Iterable[Entry], pins: Iterable[int]) -> Track:
    """The track of a run with all its marks."""
    saved = [(one.step, one.reason) for one in facts.checkpoints]
    edits = [edit.step for edit in facts.edits]
    ends = (facts.steps[0], facts.last) if facts.steps else (0, 0)
    return Track(*ends, marks(facts.evaluations, edits, saved, (entry.step for entry in entries), pins))


def where(facts: Facts, step: int) -> str:
    """`step  40/80`."""
    return f"step {step:>{len(str(facts.last))}}/{facts.last}"


def reading(shown: EpisodeView | None, pin: Pin | None, way: str, colours: Palette) -> Line:
    """`⚑ 88 · hit 3 of 12  lost at once`: what is read, how one came there, and one's note to it."""
    if shown is None:
        return BLANK
    told = one_line(shown.id, 24) + (f" · {way}" if way else "")
    note = f"  {one_line(pin.note, 60)}" if pin is not None and pin.note else ""
    mark = "⚑ " if pin is not None else ""
    return (mark, style(colours.accent, bold=True)), (told, style(colours.soft)), (note, style(colours.text))


def gists(
    entries: Sequence[Entry], left: int, episodes: int, read: Line, step: int, colours: Palette
) -> list[Line]:
    """A line for the title of each pane; `left` steps are not looked through yet."""
    soft = style(colours.soft)
    found = f"{left:,} steps left" if left else f"{len(entries):,} found"
    here: Line = ((f"step {step}", soft),)
    return [((found, soft),), ((plural(episodes, "episode"), soft),), read, here, here]
