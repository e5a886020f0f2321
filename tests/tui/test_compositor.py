"""How a run's screen is put together: cell by cell what Textual makes of it, in less painting."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from rich.segment import Segment
from textual._compositor import Compositor
from textual._styles_cache import StylesCache
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tests.tui.clock import Clock
from tests.tui.look import SIZES, play, seen, still, until, watching
from tui.app import SelfPlayApp
from tui.compositor import FrontFirst
from tui.screens.run import RunScreen
from tui.widgets.linecache import LineCache
from tui.widgets.painted import LineWidget


def drawn(
    render: Callable[..., Sequence[dict[int, Strip]]], made: Compositor, crop: Region, lines: set[int]
) -> list[list[Segment]]:
    """Each line that was asked for, with one segment a style."""
    chops = render(made, crop, lines.__contains__)
    within = range(crop.x, crop.right)
    return [
        list(Strip.join([chops[y][x] for x in sorted(chops[y]) if x in within]).simplify()) for y in sorted(lines)
    ]


def crops(size: tuple[int, int], rng: random.Random) -> list[Region]:
    """The whole screen, each line of it, and some parts."""
    wide, high = size
    parts = [Region(0, 0, wide, high), *(Region(0, y, wide, 1) for y in range(high))]
    for _ in range(20):
        x, y = rng.randrange(wide), rng.randrange(high)
        parts.append(Region(x, y, rng.randint(1, wide - x), rng.randint(1, high - y)))
    return parts


def assert_is_textuals(app: SelfPlayApp, rng: random.Random) -> None:
    made = app.screen._compositor
    assert isinstance(made, FrontFirst)
    for crop in crops(app.size, rng):
        lines = {y for y in range(crop.y, crop.bottom) if rng.random() < 0.8}
        mine = drawn(FrontFirst._render_chops, made, crop, lines)
        assert mine == drawn(Compositor._render_chops, made, crop, lines)


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


async def test_only_what_nothing_lies_over_is_painted(monkeypatch: pytest.MonkeyPatch) -> None:
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
        made, whole = app.screen._compositor, Region(0, 0, 120, 40)
        drawn(FrontFirst._render_chops, made, whole, set(range(40)))
        assert not [widget for widget, _ in painted if widget is app.screen]
        mine = len(painted)
        painted.clear()
        drawn(Compositor._render_chops, made, whole, set(range(40)))
        assert any(widget is app.screen for widget, _ in painted)
        assert mine < 0.8 * len(painted)


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
            for crop in crops(widget.region.size, rng):
                assert mine.render_widget(widget, crop) == theirs.render_widget(widget, crop)
            kept = widget._styles_cache
            everything = Region(0, 0, *widget.region.size)
            assert kept.render_widget(widget, everything) == StylesCache().render_widget(widget, everything)
