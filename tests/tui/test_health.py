"""Health in words: each sign of illness where it is there, and none where it isn't; the gravest first."""

from __future__ import annotations

import pytest

from engine.events import CreditAssigned, EpisodeFinished, StepFinished
from engine.rewards.judge import Judgement
from engine.types import Completion, Fate, GenerateResult, Learnt, Rollout, Turn
from tests.tui.fake import FakeStatus
from tui.health import Finding, findings
from tui.state import Store

GB = 1_000_000_000


def store(**metrics: float) -> Store:
    made = Store(lambda _: "", lambda: 0.0)
    made.fold([StepFinished(1, metrics)])
    return made


def found(name: str, made: Store, status: FakeStatus | None = None, installed: int = 8 * GB) -> Finding | None:
    said = findings(made, status or FakeStatus(), installed=installed)
    return next((one for one in said if one.name == name), None)


def level(name: str, made: Store, **more: object) -> str | None:
    one = found(name, made, **more)  # type: ignore[arg-type]
    return one.level if one is not None else None


def test_the_gravest_comes_first_and_what_is_not_known_last() -> None:
    made = store(lora_b_norm=0.0, illegal_rate=0.1, signal=0.9)
    levels = [one.level for one in findings(made, FakeStatus())]
    assert levels == sorted(levels, key=["bad", "watch", "good", "none"].index)
    assert {"bad", "watch", "good", "none"} <= set(levels)


def test_all_that_is_ill_comes_with_an_advice() -> None:
    made = store(
        lora_b_norm=0.0, illegal_rate=0.5, truncated_rate=0.5, mismatch_mean=0.5, signal=0.01, groups=8.0,
        flat_groups=8.0, nonfinite=1.0,
    )  # fmt: skip
    made.behind = 9
    said = findings(made, FakeStatus(memory=int(7.9 * GB)), installed=8 * GB)
    ill = [one for one in said if one.level in ("watch", "bad")]
    assert len(ill) == 8
    assert all(one.advice for one in ill)


def test_seven_of_eight_groups_without_signal_are_to_be_watched() -> None:
    ill = found("signal", store(signal=0.125, groups=8.0, flat_groups=7.0))
    assert ill is not None
    assert ill.level == "watch"
    assert "7 of 8 groups none" in ill.words
    assert level("signal", store(signal=0.5, groups=8.0, flat_groups=4.0)) == "good"


@pytest.mark.parametrize(("share", "said"), [(0.0, "good"), (0.04, "good"), (0.12, "watch"), (0.3, "bad")])
def test_turns_that_are_cut_short(share: float, said: str) -> None:
    one = found("length", store(truncated_rate=share))
    assert one is not None
    assert one.level == said
    assert one.words == (f"{share:.0%} of turns cut short" if share else "no turn cut short")


def judged(unparsed: int, of: int) -> Store:
    made = Store(lambda _: "", lambda: 0.0)
    for number in range(of):
        rollout = Rollout(f"{number}", "debate", rewards={"Pro": 1.0})
        Judgement("choose", None if number < unparsed else 1.0).keep_in(rollout.extras)
        made.fold([EpisodeFinished(GenerateResult(rollout))])
    made.fold([StepFinished(1, {})])
    return made


def test_judgements_without_a_verdict() -> None:
    ill = found("judge", judged(4, 100))
    assert ill is not None
    assert (ill.level, ill.words) == ("watch", "4% of judgements unparsed")
    assert level("judge", judged(0, 20)) == "good"
    assert level("judge", judged(10, 20)) == "bad"
    assert found("judge", judged(0, 0)) is None


def played(
    first: float, second: float, steps: int = 4, functions: tuple[str, str] = ("outcome", "outcome")
) -> Store:
    made = Store(lambda _: "", lambda: 0.0)
    for step in range(1, steps + 1):
        rewards = {"First": first, "Second": second}
        breakdown = {functions[0]: {"First": first}}
        breakdown.setdefault(functions[1], {})["Second"] = second
        made.fold(
            [EpisodeFinished(GenerateResult(Rollout(f"{step}", "nim", rewards=rewards, breakdown=breakdown)))]
        )
        made.fold([StepFinished(step, {})])
    return made


def test_a_seat_that_gets_more() -> None:
    ill = found("seats", played(0.16, -0.15))
    assert ill is not None
    assert (ill.level, ill.words) == ("watch", "bias 0.31: First +0.16, Second −0.15")
    assert level("seats", played(0.1, -0.1)) == "good"


def test_roles_rewarded_by_different_functions_are_no_seats_and_one_step_is_chance() -> None:
    assert found("seats", played(1.0, -1.0, functions=("solved", "solvable"))) is None
    assert found("seats", played(1.0, -1.0, steps=1)) is None


def learnt_from(age: int) -> Store:
    made = Store(lambda _: "", lambda: 0.0)
    turn = Turn("First", 0, [], Completion("[1]", versions=[1]))
    result = GenerateResult(Rollout("1", "nim", turns=[turn], rewards={"First": 1.0}))
    made.fold([EpisodeFinished(result), CreditAssigned(1, [result])])
    turn.learnt = Learnt(Fate.LEARNT, age)
    made.fold([StepFinished(1, {})])
    return made


@pytest.mark.parametrize(("age", "said"), [(0, "good"), (1, "good"), (3, "watch"), (8, "bad")])
def test_a_learner_ahead_of_what_it_learns_from(age: int, said: str) -> None:
    one = found("age", learnt_from(age))
    assert one is not None
    assert one.level == said
    assert not age or f"{age} version" in one.words


def test_how_old_turns_are_is_forgotten_with_their_step() -> None:
    made = learnt_from(3)
    made.fold([StepFinished(2, {})])
    assert found("age", made) is None


@pytest.mark.parametrize(("held", "said"), [(4.0, "good"), (6.5, "watch"), (7.7, "bad")])
def test_memory_against_what_the_machine_has(held: float, said: str) -> None:
    one = found("memory", store(), status=FakeStatus(memory=int(held * GB)))
    assert one is not None
    assert one.level == said
    assert f"{held} GB held at most" in one.words


def test_memory_is_left_out_where_nothing_is_known_of_it() -> None:
    assert found("memory", store(), status=FakeStatus(memory=0)) is None
    assert found("memory", store(), installed=0) is None
