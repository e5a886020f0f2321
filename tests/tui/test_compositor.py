"""How a run's screen is put together: cell by cell what Textual makes of it, in less painting."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest
from rich.style import Style
from textual._compositor import Compositor
from textual._styles_cache import StylesCache
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tests.tui.clock import Clock
from tests.tui.look import SIZES, at_rest, play, seen, still, until, watching
from tui.app import SelfPlayApp
from tui.compositor import FrontFirst
from tui.screens.run import RunScreen
from tui.widgets.linecache import LineCache
from tui.widgets.painted import LineWidget

Cells = list[tuple[str, Style | None]]


def cells(pieces: Sequence[Mapping[int, Strip | None]], spans: Sequence[tuple[int, int, int]]) -> list[Cells]:
    """What stands in each span, cell by cell."""
    found: list[Cells] = []
    for y, first, end in spans:
        line = [
            (letter, style)
            for x, piece in sorted(pieces[y].items())
            if piece is not None
            for segment in piece.crop(max(first - x, 0), max(end - x, 0))
            for letter, style in ((letter, segment.style) for letter in segment.text)
        ]
        found.append(line)
    return found


def changes(size: tuple[int, int], rng: random.Random) -> list[set[Region]]:
    """What may have to be painted anew: everything, a line, parts that lie apart or over each other."""
    wide, high = size
    made = [{Region(0, 0, wide, high)}, *({Region(0, y, wide, 1)} for y in range(high))]
    for _ in range(20):
        corners = [(rng.randrange(wide), rng.randrange(high)) for _ in range(rng.randint(1, 6))]
        made.append({Region(x, y, rng.randint(1, wide - x), rng.randint(1, high - y)) for x, y in corners})
    return made


def by_textual(made: Compositor, regions: set[Region], spans: Sequence[tuple[int, int, int]]) -> list[Cells]:
    lines = {y for y, _, _ in spans}
    return cells(Compositor._render_chops(made, Region.from_union(list(regions)), lines.__contains__), spans)


def assert_is_textuals(app: SelfPlayApp, rng: random.Random) -> None:
    made = app.screen._compositor
    assert isinstance(made, FrontFirst)
    for regions in changes((app.size.width, app.size.height), rng):
        made._dirty_regions = set(regions)
        update = made.render_partial_update()
        assert update is not None
        covered = {(x, y) for region in regions for y in region.line_range for x in region.column_range}
        assert {(x, y) for y, first, end in update.spans for x in range(first, end)} == covered
        assert cells(update.chops, update.spans) == by_textual(made, regions, update.spans)
    assert made.render_partial_update() is None


@pytest.mark.parametrize("colourless", [False, True], ids=["colours", "NO_COLOR"])
@pytest.mark.parametrize("size", [*SIZES, (60, 15)])
async def test_a_run_is_put_together_as_textual_would(
    size: tuple[int, int], colourless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if colourless:
        monkeypatch.setenv("NO_COLOR", "1")
    run, rng = still(), random.Random(0)
    app = watching(run)
    async with app.run_test(size=size, notifications=True) as pilot:
        for key in ("2", "f11", "f11", "slash", "escape", "3"):
            await play(pilot, run, 7)
            assert_is_textuals(app, rng)
            await pilot.press(key)
        app.say("Words that lie over what is below them, and take two lines of it. " * 3, "warning")
        await until(pilot, lambda: "take two lines" in seen(app))
        assert_is_textuals(app, rng)


async def test_only_what_changed_and_nothing_lies_over_is_painted(monkeypatch: pytest.MonkeyPatch) -> None:
    painted: list[tuple[Widget, int]] = []
    render = Widget.render_lines

    def counted(widget: Widget, crop: Region) -> list[Strip]:
        painted.extend((widget, y) for y in crop.line_range)
        return render(widget, crop)

    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, run, 7)
        monkeypatch.setattr(Widget, "render_lines", counted)
        screen = app.screen
        assert isinstance(screen, RunScreen)
        made, whole = screen._compositor, Region(0, 0, 120, 40)
        made._render_chops(whole, lambda y: True)
        assert not [widget for widget, _ in painted if widget is screen]
        mine = len(painted)
        painted.clear()
        Compositor._render_chops(made, whole, lambda y: True)
        assert [widget for widget, _ in painted if widget is screen]
        assert mine < 0.8 * len(painted)
        painted.clear()
        await at_rest(pilot)
        painted.clear()
        screen.wall.refresh_line(3)
        await until(pilot, lambda: painted)
        assert painted == [(screen.wall, 3)]


@pytest.mark.parametrize("look", ["plain", "padding", "border", "opacity", "filter"])
async def test_a_widgets_lines_are_kept_as_textual_would_paint_them(look: str) -> None:
    run, rng = still(), random.Random(0)
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        screen = app.screen
        assert isinstance(screen, RunScreen)
        screen.store.clock = Clock()  # rows fade by it
        widget: LineWidget = screen.wall
        if look == "padding":
            widget.styles.padding = (1, 2)
        elif look == "border":
            widget.styles.border = ("round", "red")
        elif look == "opacity":
            widget.styles.opacity = 0.5
        elif look == "filter":
            app.theme = "clear"
        for _ in range(5):
            await play(pilot, run, 3)
            mine, theirs = LineCache(widget), StylesCache()
            size = widget.region.size
            for crop in {region for regions in changes((size.width, size.height), rng) for region in regions}:
                assert mine.render_widget(widget, crop) == theirs.render_widget(widget, crop)
            kept = widget._styles_cache
            everything = Region(0, 0, *size)
            assert kept.render_widget(widget, everything) == StylesCache().render_widget(widget, everything)


@pytest.mark.parametrize("is_scrolled", [False, True])
async def test_a_line_is_painted_to_its_edge_and_no_scrollbar_with_it(is_scrolled: bool) -> None:
    app = watching(still())
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        screen = app.screen
        assert isinstance(screen, RunScreen)
        wall = screen.wall
        wall.show_vertical_scrollbar = is_scrolled
        wall._exchange_repaint_regions()
        wall.refresh_line(2)
        assert wall._exchange_repaint_regions() == {Region(0, 2, wall.size.width - is_scrolled, 1)}
