"""Charts as cells, as SVG, as PNG and as tables: what is drawn where, and what is said of it."""

from __future__ import annotations

import csv
import re
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

from tui.drawing import files
from tui.drawing.cells import LABEL, column, draw, step_at
from tui.drawing.model import ChartModel, Curve
from tui.drawing.scales import Axis, axis
from tui.drawing.svg import HEIGHT, WIDTH, svg
from tui.drawing.table import rows, written
from tui.theme import DUSK
from tui.views import Mark
from tui.widgets.painted import span

STEPS = np.arange(101.0)


def flat(label: str, value: float, **more: object) -> Curve:
    return Curve(label, STEPS, np.full(101, value), metric=label, **more)  # type: ignore[arg-type]


def shown(model: ChartModel, cells: int = 80, lines: int = 16) -> list[str]:
    drawn = draw(model, cells, lines, DUSK)
    assert len(drawn) == lines
    assert all(span(line) <= cells for line in drawn)
    return ["".join(text for text, _ in line) for line in drawn]


# Axes


def test_a_logarithmic_axis_has_round_ends_and_places_powers_of_ten_evenly() -> None:
    found = axis(np.array([0.0012, 70.0]), is_log=True)
    assert (found.low, found.high) == pytest.approx((0.001, 100.0))
    assert [found.share(value) for value in (0.001, 0.1, 10, 100)] == pytest.approx([0, 0.4, 0.8, 1])
    assert [label for _, label in found.ticks(9)] == ["0.001", "0.01", "0.1", "1", "10", "100"]
    assert [label for _, label in found.ticks(2)] == ["0.001", "100"]
    assert [label for _, label in axis(np.array([3e-9, 2e-7]), True).ticks(5)] == [
        "2·10⁻⁹",
        "10⁻⁸",
        "10⁻⁷",
        "2·10⁻⁷",
    ]


def test_a_logarithmic_axis_of_less_than_a_power_of_ten_names_1_2_and_5() -> None:
    found = axis(np.array([0.31, 0.74]), is_log=True)
    assert [label for _, label in found.ticks(5)] == ["0.2", "0.5", "1"]


def test_what_is_not_above_0_sits_at_the_foot_of_a_logarithmic_axis() -> None:
    assert Axis(0.1, 10.0, True).place(np.array([-3.0, 0.0, 1.0])).tolist() == [-1.0, -1.0, 0.0]


def test_an_axis_is_plain_where_nothing_is_above_0() -> None:
    assert not axis(np.array([-1.0, 0.0]), is_log=True).is_log
    assert axis(np.array([np.nan])) == Axis(0.0, 1.0)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.2, 7.9), (1e-5, 4e-5), (1e6, 9e6)])
@pytest.mark.parametrize("most", [2, 3, 5, 9])
def test_named_values_are_evenly_spaced_from_end_to_end(low: float, high: float, most: int) -> None:
    found = axis(np.array([low, high]))
    values = [value for value, _ in found.ticks(most)]
    assert 2 <= len(values) <= most
    assert (values[0], values[-1]) == pytest.approx((found.low, found.high))
    assert np.ptp(np.diff(values)) == pytest.approx(0, abs=1e-9 * high)


# In sight


def test_a_curve_is_cut_at_the_edge_of_what_is_in_sight_on_its_own_line() -> None:
    drawn = Curve("a", np.array([0.0, 10.0, 20.0]), np.array([0.0, 10.0, 0.0]))
    xs, ys = drawn.seen((5.0, 12.0))
    assert (xs.tolist(), ys.tolist()) == ([5.0, 10.0, 12.0], [5.0, 10.0, 8.0])
    xs, ys = drawn.seen((2.0, 4.0))  # between two points
    assert (xs.tolist(), ys.tolist()) == ([2.0, 4.0], [2.0, 4.0])
    assert [len(part) for part in drawn.seen((30.0, 40.0))] == [0, 0]


def test_the_axis_of_values_follows_what_is_in_sight() -> None:
    model = ChartModel("a", (Curve("a", STEPS, STEPS),), x_range=(0, 100))
    assert model.axis() == Axis(0.0, 100.0)
    near = replace(model, x_range=(40.0, 44.0)).axis()
    assert (near.low, near.high) == (40.0, 44.0)


# Cells


def test_a_cell_and_its_step_are_each_others() -> None:
    for wide in (9, 40, 113):
        for cell in range(wide):
            assert column(step_at(cell, (3, 77), wide), (3, 77), wide) == cell
    assert column(78, (3, 77), 40) is None


def test_every_curve_of_several_has_a_sign_of_its_own_on_it_and_in_the_legend() -> None:
    model = ChartModel("a", tuple(flat(f"run-{n}", n) for n in range(8)), x_range=(0, 100))
    lines = shown(model, 100, 30)
    legend = " ".join(lines[: next(y for y, line in enumerate(lines) if "┤" in line)])
    body = lines[-30:]
    for place, sign in enumerate("●○◆◇▲△■□"):
        assert f"{sign} run-{place} {place}" in legend
        assert any(sign in line[LABEL + 1 :] for line in body if "│" in line or "┤" in line)


def test_a_legend_too_long_for_the_title_goes_below_it() -> None:
    model = ChartModel("mean reward", tuple(flat(f"a long name {n}", n) for n in range(4)), x_range=(0, 100))
    first, second, *_ = shown(model, 60, 16)
    assert first.strip() == "mean reward"
    assert "a long name 0" in second


def test_the_cursor_is_a_line_at_its_step_and_reads_every_curve_there() -> None:
    rising = Curve("rising", STEPS, STEPS / 10)
    tens = Curve("seldom", STEPS[::10], np.full(11, 7.0))
    lines = shown(ChartModel("a", (rising, tens), x_range=(0, 100), cursor=42), 80, 16)
    assert "● rising 4.2" in lines[0]
    assert "○ seldom 7 at 40" in lines[0]
    x = LABEL + 1 + round(0.42 * (80 - LABEL - 2 - 1))
    assert sum(line[x] == "│" for line in lines) >= 8
    assert "▲42" in lines[-1]


def test_without_a_cursor_the_last_value_in_sight_is_read() -> None:
    model = ChartModel("a", (Curve("a", STEPS, STEPS),), x_range=(0, 60))
    assert shown(model)[0].split() == ["a", "60"]


def test_a_smoothed_curve_is_drawn_over_its_raw_values_and_reads_them() -> None:
    raw = np.zeros(101)
    raw[50] = 8.0
    smooth = Curve("a", STEPS, np.zeros(101), raw=raw)
    lines = shown(ChartModel("a", (smooth,), x_range=(0, 100), cursor=50))
    assert lines[0].split()[-1] == "8"
    assert "8 ┤" in lines[1]  # the axis holds the raw values too
    middle = [line[LABEL + 1 :].strip("─│ ") for line in lines[2:8]]
    assert any(middle)


def test_marks_stand_at_their_steps_and_those_out_of_sight_are_gone() -> None:
    marks = (Mark(25, "edit", "edit 3"), Mark(50, "best", ""), Mark(75, "checkpoint", ""), Mark(90, "skipped", ""))
    model = ChartModel("a", (flat("a", 1.0),), marks, (0, 100))
    lines = shown(model, 110, 16)
    wide = 110 - LABEL - 2
    foot = lines[-2][LABEL + 1 :]
    assert {foot.index(sign): sign for sign in "★◆×"} == {
        round(step / 100 * (wide - 1)): sign for step, sign in ((50, "★"), (75, "◆"), (90, "×"))
    }
    assert sum("┊" in line for line in lines) >= 10
    assert "edit 3" in "".join(lines)
    gone = shown(replace(model, x_range=(91, 100)), 110, 16)
    assert not set("┊★◆×") & set("".join(gone))


def test_a_logarithmic_chart_says_what_it_has_no_place_for_and_marks_it() -> None:
    ys = np.ones(101)
    ys[[10, 20]] = 0.0, -1.0
    lines = shown(ChartModel("a", (Curve("a", STEPS, ys),), x_range=(0, 100), is_log=True))
    assert "log axis, 2 points ≤ 0 at its foot ▾" in lines[0]
    assert lines[-3].count("▾") == 2
    nothing = shown(ChartModel("a", (flat("a", -1.0),), x_range=(0, 100), is_log=True))
    assert "not logarithmic: no value in sight is above 0" in nothing[0]


@pytest.mark.parametrize("size", [(0, 0), (1, 1), (8, 3), (17, 4), (30, 5), (300, 80)])
def test_a_chart_fits_whatever_room_there_is(size: tuple[int, int]) -> None:
    curves = tuple(flat(f"run {n}", n) for n in range(3))
    drawn = draw(ChartModel("a title", curves, x_range=(0, 100), cursor=3), *size, DUSK)
    assert len(drawn) <= size[1] or size[1] == 0
    if size[0] > 30:
        assert all(span(line) <= size[0] for line in drawn)


def test_two_thousand_points_are_drawn_within_the_budget() -> None:
    """6 ms at 120×30; twice that for a machine that is busy. The best of several is what the code takes."""
    xs = np.arange(2000.0)
    noise = np.random.default_rng(0).normal(0, 0.2, (3, 2000))
    curves = tuple(Curve(f"{n}", xs, np.sin(xs / 100 + n) + noise[n]) for n in range(3))
    marks = tuple(Mark(step, "edit", "edit") for step in range(0, 2000, 200))
    model = ChartModel("a", curves, marks, (0, 1999), cursor=700)
    taken = []
    for _ in range(10):
        began = time.perf_counter()
        draw(model, 120, 30, DUSK)
        taken.append(time.perf_counter() - began)
    assert min(taken) < 0.012


# Files


def elements(text: str, name: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(text).iter(f"{{http://www.w3.org/2000/svg}}{name}"))


def test_an_svg_is_sound_whatever_the_names_hold() -> None:
    hostile = "<b>&\x1b]52;c;AAAA\x07\u202e\ud800 ]]>"
    drawn = svg(ChartModel(hostile, (flat(hostile, 1.0), flat("b", 2.0)), (Mark(3, "edit", hostile),), (0, 100)))
    drawn.encode("utf-8")
    assert "\x1b" not in drawn
    assert elements(drawn, "title")[0].text is not None


def test_an_svgs_points_are_in_place_and_dashes_tell_curves_apart() -> None:
    rising = Curve("a", np.array([0.0, 50.0, 100.0]), np.array([0.0, 1.0, 0.0]))
    drawn = svg(ChartModel("t", (rising, flat("b", 0.5)), x_range=(0, 100)))
    first, second = elements(drawn, "polyline")
    points = [tuple(map(float, point.split(","))) for point in first.get("points", "").split()]
    assert len(points) == 3
    assert points[1][0] == pytest.approx((points[0][0] + points[2][0]) / 2)
    assert points[1][1] < points[0][1] == points[2][1]  # up is a smaller y
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    assert first.get("stroke-dasharray") != second.get("stroke-dasharray")
    assert {"● a 0", "○ b 0.500"} <= {element.text for element in elements(drawn, "text")}


def test_an_svg_can_be_read_on_light_and_on_dark() -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = (
        elements(svg(ChartModel("t", (flat("a", 1.0),), x_range=(0, 100))), "style")[0].text or ""
    ).split("@media(prefers-color-scheme:dark)")
    for css in (light, dark):
        colours = dict(re.findall(r"\.(ground|ink|soft|c\d)\{(?:fill|stroke):(#[0-9a-f]{6})\}", css))
        ground = luminance(colours.pop("ground"))
        assert len(colours) == 10
        for colour in colours.values():
            high, low = sorted((luminance(colour), ground), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5


def test_a_long_curve_keeps_its_spike_in_an_svg_of_bounded_size() -> None:
    ys = np.zeros(50_000)
    ys[31_234] = 9.0
    drawn = svg(ChartModel("t", (Curve("a", np.arange(50_000.0), ys),), x_range=(0, 49_999)))
    points = [point.split(",") for point in elements(drawn, "polyline")[0].get("points", "").split()]
    assert len(points) < 5 * WIDTH
    assert len({y for _, y in points}) == 2


def test_a_table_has_a_row_a_step_in_sight_and_what_was_measured_unsmoothed() -> None:
    often = Curve("loss", np.array([1.0, 2.0, 3.0]), np.zeros(3), metric="loss", raw=np.array([0.1, 1 / 3, 0.5]))
    seldom = Curve("win", np.array([0.0, 2.0]), np.array([0.5, 0.75]), metric="eval/win")
    models = [ChartModel("loss", (often,), x_range=(0, 2)), ChartModel("win", (seldom,), x_range=(0, 2))]
    assert rows(models) == [
        ["step", "loss", "eval/win"],
        ["0", "", "0.5"],
        ["1", "0.1", ""],
        ["2", repr(1 / 3), "0.75"],
    ]
    assert written(models, "\t").splitlines()[2] == "1\t0.1\t"


def test_the_same_metric_of_two_runs_has_two_columns() -> None:
    curves = (
        Curve("nim-1", STEPS[:1], STEPS[:1], metric="loss"),
        Curve("nim-2", STEPS[:1], STEPS[:1], metric="loss"),
    )
    assert rows([ChartModel("loss", curves, x_range=(0, 1))])[0] == ["step", "loss (nim-1)", "loss (nim-2)"]


def test_files_go_into_exports_beside_what_is_there(tmp_path: Path) -> None:
    model = ChartModel("win / vs: <random>", (flat("a", 1.0),), x_range=(0, 100))
    (first,), (second,) = files.save_svg(tmp_path, [model]), files.save_svg(tmp_path, [model])
    assert first == tmp_path / "exports" / "win-vs-random-to-step-100.svg"
    assert second != first
    assert first.read_text("utf-8") == second.read_text("utf-8") == svg(model)
    (table,) = files.save_csv(tmp_path, [model, model])
    with table.open(newline="") as file:
        assert len(list(csv.reader(file))) == 102


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "exports").write_text("a file")
    with pytest.raises(files.DrawingError, match="exports"):
        files.save_svg(tmp_path, [ChartModel("a", (flat("a", 1.0),), x_range=(0, 100))])


def test_a_png_is_made_where_resvg_is_there(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    (path,) = files.save_png(tmp_path, [ChartModel("a", (flat("a", 1.0),), x_range=(0, 100))])
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert tuple(int.from_bytes(content[at : at + 4]) for at in (16, 20)) == (2 * WIDTH, 2 * HEIGHT)


def test_without_resvg_a_png_is_refused_with_what_would_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(files.DrawingError, match=r"selfplay-tui\[png\].*SVG"):
        files.save_png(tmp_path, [ChartModel("a", (flat("a", 1.0),), x_range=(0, 100))])
    assert not (tmp_path / "exports").exists()


def test_a_png_holds_what_resvg_makes_of_the_svg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ChartModel("a", (flat("a", 1.0),), x_range=(0, 100))
    asked: list[str] = []

    def to_bytes(svg_string: str, zoom: float) -> bytes:
        asked.append(svg_string)
        return b"png"

    monkeypatch.setitem(sys.modules, "resvg_py", SimpleNamespace(svg_to_bytes=to_bytes))
    (path,) = files.save_png(tmp_path, [model])
    assert path.read_bytes() == b"png"
    assert asked == [svg(model)]
