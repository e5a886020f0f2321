"""Highlights: each kind by its definition, on episodes made so that the answer is known."""

from dataclasses import asdict
from pathlib import Path

import pytest

from engine.reading.drift import WINDOW, drifts, mean_rewards, tau
from engine.reading.highlights import (
    Highlight,
    Highlights,
    Kind,
    company,
    disagreement,
    failed,
    hack,
    illegal,
    longest,
    of_step,
    repetition,
    upset,
)
from engine.reading.outlines import Outline, TurnOutline
from engine.rewards.judge import Judgement
from engine.rows import StoredEpisode
from engine.store import StepRecord, Store
from engine.types import Completion, Credit, GenerateResult, Rollout, Turn


def outline(
    rollout_id: str,
    reward: float,
    tokens: int = 10,
    text: str = "a reply",
    baseline: float | None = None,
    step: int = 1,
    illegal: bool = False,
    **rollout,
) -> Outline:
    """An episode of one role and one turn."""
    credit = None if baseline is None else Credit(reward - baseline, reward, baseline)
    made = Rollout(rollout_id, "sums", rewards={"Solver": reward}, players={"Solver": "policy"}, **rollout)
    turn = TurnOutline(0, "Solver", "policy", text, tokens, illegal, credit=credit)
    return Outline(StoredEpisode(made, step, False, None, True), [turn])


def kinds(found: list[Highlight]) -> list[Kind]:
    return [highlight.kind for highlight in found]


def test_an_upset_is_the_reward_furthest_from_its_baseline_as_a_share_of_the_range():
    step = [outline("0", 1.0, baseline=0.9), outline("1", -1.0, baseline=0.8), outline("2", 1.0, baseline=0.8)]
    peers = company(step)
    assert upset(step[0], peers) is None
    found = upset(step[1], peers)
    assert found is not None
    assert found.score == pytest.approx(1.8 / 2)
    assert found.words == "Solver got −1.00 where +0.80 was expected"


def test_without_a_baseline_the_mean_of_its_peers_was_expected():
    step = [outline(str(i), 1.0) for i in range(9)] + [outline("9", 0.0)]
    found = upset(step[-1], company(step))
    assert found is not None
    assert found.score == pytest.approx(0.9)
    assert upset(outline("0", 5.0), company([outline("0", 5.0)])) is None  # nobody to compare with


def test_an_even_game_has_no_upset():
    step = [outline(str(i), (-1.0) ** i, baseline=0.0) for i in range(8)]
    assert [upset(one, company(step)) for one in step] == [None] * 8


def test_evaluation_and_training_are_not_compared():
    training = [outline(str(i), 1.0) for i in range(9)]
    tested = Outline(
        StoredEpisode(Rollout("eval-1/0", "sums", rewards={"Solver": 0.0}), 1, True, None, False),
        [TurnOutline(0, "Solver", "policy", "x", 1)],
    )
    assert upset(tested, company([*training, tested])) is None


def test_a_high_reward_for_a_very_long_or_short_reply_is_suspected():
    usual = [outline(str(i), 0.0, tokens=20) for i in range(8)]
    for tokens, words in ((90, "replies 4.5 times the usual length"), (3, "replies 15% of the usual length")):
        odd = outline("odd", 1.0, tokens=tokens)
        found = hack(odd, company([*usual, odd]))
        assert found is not None
        assert found.words.endswith(words)
        plain = outline("odd", 0.0, tokens=tokens)
        assert hack(plain, company([*usual, plain])) is None
    same = outline("same", 1.0, tokens=25)
    assert hack(same, company([*usual, same])) is None


def test_a_high_reward_for_a_reply_that_repeats_itself_is_suspected():
    usual = [outline(str(i), 0.0) for i in range(8)]
    odd = outline("odd", 1.0, text="I am surely right and " * 12)
    found = hack(odd, company([*usual, odd]))
    assert found is not None
    assert "repeats itself" in found.words


def test_short_replies_that_differ_by_a_token_are_not_suspected():
    usual = [outline(str(i), 0.0, tokens=2) for i in range(8)]
    odd = outline("odd", 1.0, tokens=7)
    assert hack(odd, company([*usual, odd])) is None


def test_repetition_is_the_share_of_phrases_said_before():
    assert repetition("one two three four " * 7) == pytest.approx(1 - 4 / 25)
    assert repetition(" ".join(map(str, range(40)))) == 0.0
    assert repetition("again " * 23) == 0.0  # too few words to tell


def test_a_judge_that_disagrees_is_found_in_the_extras():
    split, agreed = Judgement("choose", 0.5, False), Judgement("choose", 1.0, True)
    unknown = Judgement("rate", 0.7)
    extras: dict = {}
    for judgement in (split, agreed, agreed, unknown):
        judgement.keep_in(extras)
    found = disagreement(outline("0", 1.0, extras=extras))
    assert found is not None
    assert (found.score, found.words) == (pytest.approx(1 / 3), "1 of 3 judgements disagree")
    assert disagreement(outline("0", 1.0, extras={"judge": [asdict(agreed)]})) is None
    assert disagreement(outline("0", 1.0, extras={"judge": "a task's own"})) is None
    assert disagreement(outline("0", 1.0)) is None


def test_an_illegal_turn_tells_more_the_rarer_they_are():
    common, rare = (illegal(outline("0", -1.5, illegal=True), share) for share in (0.5, 0.01))
    assert common is not None
    assert rare is not None
    assert rare.score > common.score
    assert rare.words == "turn 1 of Solver was ruled out, as 1.0% of the step's turns"
    assert illegal(outline("0", 1.0), 0.0) is None


def test_the_longest_is_twice_as_long_as_the_median_or_more():
    assert longest(outline("0", 1.0, tokens=19), 10) is None
    assert longest(outline("0", 1.0, tokens=0), 0) is None
    found = longest(outline("0", 1.0, tokens=2000), 10)
    assert found is not None
    assert found.words == "2,000 tokens in 1 turns; the step's median is 10"


def test_a_failed_episode_says_with_what():
    found = failed(outline("0", 1.0, error="Traceback\n  …\nValueError: no [such] move"))
    assert found is not None
    assert found.words == "it failed: ValueError: no [such] move"
    assert failed(outline("0", 1.0)) is None


def test_a_step_tells_the_best_of_each_kind_once():
    step = [outline(str(i), 0.0, tokens=20 + i) for i in range(9)]
    step += [outline("9", 1.0, tokens=400, illegal=True), outline("10", 1.0, tokens=300, illegal=True)]
    found = {highlight.kind: highlight.rollout_id for highlight in of_step(step)}
    assert found == {Kind.HACK: "9", Kind.UPSET: "9", Kind.ILLEGAL: "9", Kind.LONGEST: "9"}
    assert of_step([]) == []


def test_a_run_tells_a_few_of_each_kind_the_most_interesting_first_and_forgets():
    highlights = Highlights()
    for step in range(1, 11):
        usual = [outline(f"{step}.{i}", 0.0, tokens=5, step=step) for i in range(3)]
        highlights.add(step, [*usual, outline(f"{step}", 0.0, tokens=10 * step, step=step)])
    found = highlights.top(3)
    assert kinds(found) == [Kind.LONGEST] * 3
    assert [highlight.step for highlight in found] == [10, 9, 8]
    highlights.forget_after(4)
    assert [highlight.step for highlight in highlights.top(3)] == [4, 3, 2]
    highlights.add(4, [])
    assert [highlight.step for highlight in highlights.top(3)] == [3, 2, 1]


def test_the_same_words_are_told_once():
    highlights = Highlights()
    for step in (1, 2, 3):
        highlights.add(step, [outline(f"{step}", 0.0, step=step, error="the same")])
    [found] = highlights.top()
    assert found.step == 3


def series(values: list[float], every: int = 10) -> list[tuple[int, float]]:
    return [(every * i, value) for i, value in enumerate(values)]


RISING = [(step, step / 50) for step in range(1, 51)]
FALLING = series([0.9, 0.8, 0.7, 0.6, 0.5])


def test_reward_up_and_evaluation_down_is_a_drift():
    [found] = drifts(RISING, FALLING)
    assert (found.first, found.step, found.fall) == (0, 40, pytest.approx(1.0))
    assert found.words == "steps 0 to 40: reward +0.11 to +0.71, but evaluation 0.90 to 0.50"
    assert len(FALLING) == WINDOW


def test_where_less_is_better_a_rise_is_the_drift():
    rising = series([0.1, 0.2, 0.3, 0.4, 0.5])
    assert drifts(RISING, rising) == []
    assert len(drifts(RISING, rising, "min")) == 1


@pytest.mark.parametrize(
    ("rewards", "evaluations"),
    [
        ([(step, 0.0) for step in range(1, 51)], FALLING),  # zero-sum
        ([(step, -step / 50) for step in range(1, 51)], FALLING),  # both fall
        (RISING, series([0.5, 0.6, 0.7, 0.8, 0.9])),  # both rise
        (RISING, series([0.9, 0.5, 0.9, 0.5, 0.9])),  # noise
        (RISING, FALLING[:4]),  # too few to tell
        (RISING, series([0.0, 1.0, 0.99, 0.98, 0.97, 0.96])),  # hardly worse, for such a range
        ([], FALLING),
        (RISING, []),
    ],
)
def test_anything_else_is_none(rewards: list[tuple[int, float]], evaluations: list[tuple[int, float]]):
    assert drifts(rewards, evaluations) == []


def test_ranks_correlate_with_time():
    assert tau([1, 2, 3]) == 1.0
    assert tau([3, 2, 1]) == -1.0
    assert tau([1, 3, 2]) == pytest.approx(1 / 3)
    assert tau([1, 1]) == 0.0


def test_the_mean_reward_counts_roles_and_not_their_functions_again():
    metrics = {"reward/A": 1.0, "reward/A/outcome": 9.0, "reward/nim/B": 0.0, "loss": 7.0}
    assert mean_rewards([StepRecord(3, 3, 0.1, metrics), StepRecord(4, 4, 0.1, {})]) == [(3, 0.5)]


def test_an_outline_is_the_step_as_it_was_recorded_without_tokens(tmp_path: Path):
    turn = Turn("First", 0, [], Completion("[2] \ud800", tokens=[1, 2, 3], player="rival"), illegal=True)
    turn.credit = Credit(0.5, 1.0, 0.5)
    child = GenerateResult(Rollout("0.0", "nim", turns=[Turn("Second", 0, [], Completion("x"))]))
    with Store.create(tmp_path / "run") as store:
        store.record_step(1, 1, 0.5, {}, [GenerateResult(Rollout("0", "nim", turns=[turn]), [child])])
        store.record_step(2, 2, 0.5, {}, [GenerateResult(Rollout("1", "nim"))])
        first, second = store.outlines(1)
        assert first.turns == [TurnOutline(0, "First", "rival", "[2] \ud800", 3, True, "stop", turn.credit)]
        assert (first.id, first.tokens, second.id, second.episode.parent) == ("0", 3, "0.0", "0")
        assert [one.id for one in store.outlines(2)] == ["1"]
        assert store.outlines(3) == []


def test_a_step_played_again_has_another_mark(tmp_path: Path):
    with Store.create(tmp_path / "run") as store:
        store.record_step(1, 1, 0.5, {}, [GenerateResult(Rollout("0", "nim"))])
        store.record_step(2, 2, 0.25, {}, [GenerateResult(Rollout("1", "nim"))])
        before = store.step_marks()
        assert list(before) == [1, 2]
        store.rewind(1)
        store.record_step(2, 2, 0.125, {}, [GenerateResult(Rollout("1", "nim"))])
        after = store.step_marks()
        assert after[1] == before[1]
        assert after[2] != before[2]
