"""Health in words, the status line, the reward table, numbers as they are written."""

from __future__ import annotations

import math

import pytest

from engine.events import EpisodeFinished, EpisodeStarted, EvaluationFinished, RunState, StateChanged, StepFinished
from engine.types import GenerateResult, Rollout
from tests.tui.fake import FakeStatus
from tui import readouts
from tui.drawing.cells import draw
from tui.health import Finding, findings
from tui.metrics.charts import charts
from tui.readouts.roomy import roomy
from tui.state import Store
from tui.text import width
from tui.theme import DUSK
from tui.widgets.painted import Line, span
from tui.words import count, elapsed, exact, label, memory, number, signed, sparkline


def words(lines: list[Line]) -> str:
    return "\n".join("".join(text for text, _ in line) for line in lines)


def store(**metrics: float) -> Store:
    made = Store(lambda _: "", lambda: 0.0)
    made.fold([StepFinished(1, metrics)])
    return made


def finding(name: str, made: Store, status: FakeStatus | None = None, left_out: int = 0) -> Finding:
    return next(found for found in findings(made, status or FakeStatus(), left_out) if found.name == name)


def test_b_that_has_not_moved_is_bad_and_says_so() -> None:
    assert finding("adapter", store(lora_b_norm=0.0)).level == "bad"
    assert "B has not moved" in finding("adapter", store(lora_b_norm=0.0)).words
    assert finding("adapter", store(lora_b_norm=0.1)).level == "good"


def test_of_full_fine_tuning_it_is_the_weights_that_have_to_move() -> None:
    assert finding("adapter", store(difference_norm=0.0)).words == "W has not moved: still the base model"
    assert finding("adapter", store(difference_norm=0.5)).words == "moved, |ΔW| 0.50"


def test_a_skipped_step_says_why() -> None:
    made = store(loss=1.0)
    made.fold([StepFinished(2, {}, "no turn had an advantage")])
    assert finding("signal", made).level == "bad"
    assert "no turn had an advantage" in finding("signal", made).words
    made.fold([StepFinished(3, {"signal": 0.9})])
    assert finding("signal", made).level == "good"


def test_groups_of_one_rollout_are_told_what_would_help() -> None:
    made = store()
    made.fold([StepFinished(2, {}, "all 8 groups had one rollout, and nothing to compare it with")])
    assert "task.options.repeats" in finding("signal", made).advice


def test_a_failed_run_is_not_well_whatever_its_last_numbers_were() -> None:
    made = store(loss=0.1, grad_norm=0.2)
    made.fold([StateChanged(RunState.FAILED, "logits of policy aren't finite")])
    found = findings(made, FakeStatus())
    assert (found[0].name, found[0].level) == ("run", "bad")
    assert words([readouts.gist(found, DUSK)]) == "✗ 1 to mend"


def test_the_banner_names_the_step_that_is_kept_and_the_command_that_goes_on_otherwise() -> None:
    shown = words(readouts.failure("logits of policy aren't finite", "/runs/nim-1", 0, 100, DUSK))
    assert "Step 0 is kept" in shown
    assert "selfplay-tui resume /runs/nim-1 --set KEY=VALUE" in shown
    assert "It has no checkpoint yet" in words(readouts.failure("", "/runs/nim-1", None, 100, DUSK))


def test_groups_that_taught_nothing_are_counted() -> None:
    made = store(signal=0.125, groups=8.0, flat_groups=6.0, lone_groups=1.0)
    assert finding("signal", made).words == "12% of turns have an advantage, 7 of 8 groups none"


@pytest.mark.parametrize(
    ("name", "metrics", "level"),
    [
        ("signal", {"signal": 0.05}, "watch"),
        ("illegal", {"illegal_rate": 0.01}, "good"),
        ("illegal", {"illegal_rate": 0.1}, "watch"),
        ("illegal", {"illegal_rate": 0.5}, "bad"),
        ("mismatch", {"mismatch_mean": 0.00001}, "good"),
        ("mismatch", {"mismatch_mean": 0.05}, "watch"),
        ("mismatch", {"mismatch_mean": 0.7}, "bad"),
        ("numbers", {"loss": math.inf}, "bad"),
        ("numbers", {"loss": 0.1, "nonfinite": 1.0}, "bad"),
        ("numbers", {"loss": 0.1}, "good"),
        ("numbers", {}, "none"),
    ],
)
def test_levels_follow_the_numbers(name: str, metrics: dict[str, float], level: str) -> None:
    assert finding(name, store(**metrics)).level == level


def test_stale_and_failed_come_from_the_status() -> None:
    made = store(stale=3.0)
    assert finding("stale", made, FakeStatus(stale=12)).level == "watch"
    assert finding("stale", made, FakeStatus(stale=0)).words == "nothing dropped"
    made.fold([EpisodeFinished(GenerateResult(Rollout("1", "nim", error="KeyError: 'x'")))])
    failed = finding("episodes", made, FakeStatus(failed=1))
    assert (failed.level, failed.words, failed.advice) == ("bad", "1 episode failed", "KeyError: 'x'")


def test_events_left_out_are_said_to_be() -> None:
    assert finding("screen", store(), left_out=7).words == "7 live events left out"


def test_signs_tell_the_level_without_colour() -> None:
    shown = words(readouts.health([Finding("a", "good", "x"), Finding("b", "bad", "y", "do z")], 60, DUSK))
    assert shown.splitlines()[0].startswith(" ✓ a")
    assert shown.splitlines()[1].startswith(" ✗ b")
    assert "→ do z" in shown


@pytest.mark.parametrize("cells", [60, 80, 100, 160])
def test_the_status_line_fits_and_keeps_state_and_step(cells: int) -> None:
    status = FakeStatus(step=0, steps=100, version=41, stale=12, seconds=4000)
    for state in RunState:
        line = readouts.status(state, 41, status, cells, DUSK)
        assert span(line) <= cells
        assert state.value in words([line])
        assert "41/100" in words([line])


def test_parts_of_a_line_go_as_a_whole_the_last_ranks_first_and_what_fits_behind_them_stays() -> None:
    parts: list[tuple[int, Line]] = [
        (2, (("two", None),)),
        (0, (("0", None),)),
        (3, (("3", None),)),
        (1, (("1", None),)),
    ]
    assert [words([roomy(parts, cells)]) for cells in range(7)] == ["0", "0", "01", "031", "031", "two01", "two031"]


@pytest.mark.parametrize("hidden", ["", "374 folded", "1,204 found", "6 found, 374 folded"])
def test_the_title_of_the_episodes_is_never_cut_in_a_word(hidden: str) -> None:
    made = Store(lambda _: "", lambda: 0.0)
    made.fold([EpisodeStarted(f"{n}", "nim", None, True, {"First": "policy"}) for n in range(318)])
    made.fold([EpisodeStarted(f"eval-0/{n}", "nim", None, False, {}) for n in range(20)])
    parts = ["338 in play", *(hidden.split(", ") if hidden else []), "20 eval"]
    for cells in range(3, 83):
        title = words([readouts.gists(made, None, True, [], cells, DUSK, hidden)[0]])
        told = title.removeprefix("● First   ").split(", ")
        assert told[0] == parts[0]
        assert set(told) <= set(parts)
        assert len(title) <= max(cells, len(parts[0]))
        for place, missing in enumerate(parts):
            before = [part for part in told if parts.index(part) < place]
            assert missing in told or len(", ".join([*before, missing])) > cells


def test_of_a_run_that_is_not_loaded_no_rates_are_told() -> None:
    status = FakeStatus(step=0, steps=100, version=0, tokens_generated=5000, generation_rate=0.0)
    assert words([readouts.status(RunState.FINISHED, 100, status, 160, DUSK)]).split() == [
        "✓", "finished", "step", "100/100", "━" * 12,
    ]  # fmt: skip


def test_the_reward_table_has_a_row_a_role_and_one_a_function() -> None:
    made = Store(lambda _: "", lambda: 0.0)
    for reward in (1.0, 0.0):
        rollout = Rollout("1", "nim", rewards={"A": reward + 0.1})
        rollout.id = str(reward)
        rollout.breakdown = {"outcome": {"A": reward}, "format": {"A": 0.1}}
        made.fold([EpisodeFinished(GenerateResult(rollout))])
    shown = words(readouts.rewards(made, 60, DUSK)).splitlines()
    assert [line.split()[:2] for line in shown[1:4]] == [["●", "A"], ["format", "+0.10"], ["outcome", "+0.50"]]
    assert "+0.60" in shown[1]
    assert [line.split()[:5] for line in shown[6:]] == [
        ["●", "A", "+0.10", "█", "█"],
        ["format", "×1", "17%", "+0.10", "█"],
        ["outcome", "×1", "83%", "+0.00", "█"],
    ]
    made.fold([StepFinished(1, {})])
    assert words(readouts.rewards(made, 60, DUSK)).splitlines()[1].split()[2:] == ["–", "+0.60", "+0.60"]


def test_charts_begin_with_the_metric_that_counts_then_rewards_then_loss() -> None:
    made = Store(lambda _: "", lambda: 0.0, "win")
    made.fold([EvaluationFinished(0, {"other": 0.1, "win": 0.5})])
    made.fold([EpisodeFinished(GenerateResult(Rollout("1", "nim", rewards={"A": 1.0})))])
    made.fold([StepFinished(1, {"zeta": 1.0, "entropy": 0.4, "loss": 0.3, "reward/A/outcome": 1.0})])
    made.fold([EvaluationFinished(1, {"other": 0.1, "win": 0.6})])
    assert [model.title for model in charts(made)] == ["win", "mean reward", "loss", "other", "entropy", "zeta"]


def test_what_was_never_anything_but_0_is_charted_last() -> None:
    made = Store(lambda _: "", lambda: 0.0, "win")
    for step in (0, 1):
        made.fold([EvaluationFinished(step, {"draw": 0.0, "win": 0.5}), StepFinished(step, {"entropy": 0.4})])
    assert [model.title for model in charts(made)] == ["win", "entropy", "draw"]


@pytest.mark.parametrize("counts", ["gap", "average_gap"])
def test_the_average_is_drawn_in_the_chart_of_the_policy_it_is_of(counts: str) -> None:
    made = Store(lambda _: "", lambda: 0.0, counts, "min")
    for step in (0, 10):
        made.fold([EvaluationFinished(step, {"win": 0.5, "gap": 0.8, "average_gap": 0.7 - step / 100})])
    assert [model.title for model in charts(made)] == ["gap", "win"]
    model = charts(made)[0]
    assert [(c.label, list(c.ys)) for c in model.curves] == [("policy", [0.8, 0.8]), ("average", [0.7, 0.6])]
    lines = draw(model, 60, 10, DUSK)
    assert all(span(line) <= 60 for line in lines)
    assert words(lines).splitlines()[0].split() == ["gap", "●", "policy", "0.800", "○", "average", "0.600"]


def test_a_chart_marks_edits_and_fits_its_place() -> None:
    from engine.events import CheckpointSaved, EditApplied

    made = Store(lambda _: "", lambda: 0.0)
    made.fold([StepFinished(step, {"loss": math.sin(step)}) for step in range(40)])
    made.fold([EditApplied(1, 20, "role A", "", "x"), CheckpointSaved(30, "p", "manual")])
    model = next(model for model in charts(made) if model.title == "loss")
    lines = draw(model, 60, 10, DUSK)
    assert len(lines) == 10
    assert all(span(line) <= 60 for line in lines)
    shown = words(lines).splitlines()
    assert "edit 1" in shown[1]
    assert all(line.count("┊") <= 1 for line in shown)
    assert shown[-2].count("◆") == 1
    assert shown[-1].endswith("step 39 ")
    column = shown[1].index("edit 1") - 1
    expected = 8 + round(20 / 39 * (60 - 9 - 1))
    assert column == expected


def test_numbers_are_short_and_have_a_real_minus() -> None:
    assert (signed(-0.5), signed(1), signed(math.nan)) == ("−0.50", "+1.00", "–")
    assert signed(-0.001) == "+0.00"
    assert (number(0.511), number(0.00002), number(math.inf)) == ("0.51", "2.0e−05", "–")
    assert (count(812), count(5120), count(2_300_000)) == ("812", "5.1k", "2.3M")
    assert (memory(812e6), memory(1.24e9)) == ("812 MB", "1.2 GB")
    assert [exact(x) for x in (0.1333, 0.0008, -0.05, 2000.0, 805.4, math.nan)] == [
        "0.133", "0.0008", "−0.05", "2,000", "805", "–",
    ]  # fmt: skip
    assert elapsed(3792) == "1:03:12"
    assert label("eval/win_vs_random") == "win vs random"


def test_a_sparkline_is_as_wide_as_its_values() -> None:
    assert sparkline([0, 1, 2, 3], 10) == "▁▃▆█"
    assert sparkline([1, 1], 10) == "▄▄"
    assert sparkline([1], 10) == ""
    assert width(sparkline([float(x) for x in range(100)], 12)) == 12
