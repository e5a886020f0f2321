"""A negative number has a real minus wherever a run's record is shown, and no hyphen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.events import EpisodeFinished
from engine.ratings import Rating
from engine.reading import saying
from engine.reading.drift import Drift
from engine.reading.highlights import Highlight, Kind
from engine.types import GenerateResult, Rollout
from tests.tui.demo import app as demo_app
from tests.tui.look import SIZES, seen, until
from tests.tui.played import UPSET, record
from tests.tui.test_replay import opened, settled
from tests.tui.test_replay_parts import told
from tui import readouts
from tui.league.standings import Player
from tui.replay import feed, figures
from tui.replay.record import Record
from tui.screens.recordpanes import FEED, PAGE, PLOTS, READ, STEP
from tui.state import Store
from tui.theme import DUSK
from tui.words import signed

HYPHEN = re.compile(r"(?<![\w-])-\d")


@pytest.mark.parametrize("value", [1.0, -1.0, -0.956, 0.0, -0.0, -0.001, 0.001, -0.996, -12.5, 1234.5])
def test_sentences_of_the_engine_write_a_reward_as_the_app_does(value: float) -> None:
    assert saying.signed(value) == signed(value)
    assert saying.unsigned(value) == signed(value).removeprefix("+")


def test_where_reward_and_evaluation_part_company_both_may_be_negative() -> None:
    found = Drift(0, 40, (-0.8, -0.004), (-0.25, -1.5), 0.5)
    assert found.words == "steps 0 to 40: reward −0.80 to +0.00, but evaluation −0.25 to −1.50"


def test_what_an_error_said_is_quoted_as_it_was_said() -> None:
    [entry] = feed.entries([Highlight(Kind.FAILED, 1.0, 3, "9", "it failed: ValueError: no move -3")], {})
    assert entry.words.endswith("no move -3")


def test_a_rating_below_nothing_and_a_weight_that_takes_away_have_it_too(tmp_path: Path) -> None:
    facts = Record(record(tmp_path / "nim-7", steps=1)).facts()
    ratings = {"nim": {Player("policy", 0, 0): Rating(-12.0, -310.0, 280.0)}}
    assert "−12  −310 … 280" in told(figures.lines(facts, 1, ratings, 40, DUSK))
    seen_so_far = Store(lambda _: "", lambda: 0.0)
    given = Rollout("0", "talk", rewards={"Ada": -0.5}, breakdown={"length": {"Ada": 1.0}})
    given.weights = {"length": {"Ada": -0.5}}
    seen_so_far.sign_of("Ada")
    seen_so_far.fold([EpisodeFinished(GenerateResult(given))])
    assert "×−0.5" in told(readouts.rewards(seen_so_far, 80, DUSK))


@pytest.mark.parametrize("size", SIZES)
async def test_no_pane_of_a_replay_has_a_hyphen_for_it(tmp_path: Path, size: tuple[int, int]) -> None:
    app = demo_app()
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, record(tmp_path / "nim-7"))
        screen.go_to(8, UPSET)
        await settled(pilot, screen, 8)
        for number, negative in (
            (FEED, "got −1.00"),
            (PAGE, "●−1.00"),
            (READ, "−1.95"),
            (PLOTS, "−0."),
            (STEP, "−0."),
        ):
            await pilot.press(str(number))
            await until(pilot, lambda negative=negative: negative in seen(app))
            assert HYPHEN.findall(seen(app)) == []
