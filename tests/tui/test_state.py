"""The store: what a stream of events adds up to."""

from __future__ import annotations

import math

import pytest

from engine.events import (
    CheckpointSaved,
    CreditAssigned,
    EditApplied,
    EpisodeFinished,
    EpisodeStarted,
    EvaluationFinished,
    Notice,
    RunState,
    StateChanged,
    StepFinished,
    TokensSampled,
    TurnFinished,
    TurnStarted,
)
from engine.types import Completion, Credit, Fate, GenerateResult, Learnt, Rollout, Turn
from tests.tui.clock import Clock
from tests.tui.fake import FakeRun
from tui.state import KEPT, Store


def decode(tokens: list[int]) -> str:
    return "".join(chr(token) for token in tokens)


def tokens(text: str) -> list[int]:
    return [ord(letter) for letter in text]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Store:
    return Store(decode, clock, "win")


def result(rollout_id: str, rewards: dict[str, float], *, trainable: bool = True, **more: object) -> GenerateResult:
    rollout = Rollout(rollout_id, "nim", rewards=rewards, breakdown={"outcome": rewards}, **more)  # type: ignore[arg-type]
    rollout.players = dict.fromkeys(rewards, "policy")
    rollout.turns = [Turn(role, i, [], Completion("[1]", versions=[3])) for i, role in enumerate(rewards)]
    return GenerateResult(rollout, is_trainable=trainable)


def start(rollout_id: str, trainable: bool = True) -> EpisodeStarted:
    return EpisodeStarted(rollout_id, "nim", None, trainable, {"First": "policy", "Second": "policy"})


def test_what_was_sampled_is_held_only_until_it_is_in_the_record(store: Store) -> None:
    played, other = result("1", {"First": 1.0}), result("2", {"First": 0.0})
    sampled = TokensSampled("1", 0, tokens("[1]"), [-0.5, -1.0, -2.0])
    store.fold([start("1"), TurnStarted("1", 0, "First", "policy", []), sampled])
    view = store.episodes["1"]
    assert (view.turns[0].tokens, view.turns[0].logprobs) == (tokens("[1]"), [-0.5, -1.0, -2.0])
    store.fold([EpisodeFinished(played), EpisodeFinished(other)])
    assert (view.turns[0].tokens, view.turns[0].logprobs) == ([], [])
    assert view.rollout is played.rollout
    store.fold([CreditAssigned(7, [played]), CreditAssigned(8, [other])])
    played.rollout.turns[0].learnt = Learnt(Fate.STALE, 2)
    before = view.revision
    store.fold([StepFinished(7, {})])
    assert (view.step, view.rollout, view.turns[0].learnt) == (7, None, Learnt(Fate.STALE, 2))
    assert view.revision > before
    assert store.episodes["2"].rollout is other.rollout
    measured = result("eval-8/0", {"First": 1.0}, trainable=False)
    store.fold([EpisodeFinished(measured)])
    assert store.episodes["eval-8/0"].rollout is measured.rollout
    store.fold([EvaluationFinished(8, {"win": 1.0})])
    assert store.episodes["eval-8/0"].rollout is None


def test_of_an_episode_that_failed_the_turn_it_failed_in_stays_as_far_as_it_came(store: Store) -> None:
    failed = result("1", {"First": 0.0}, error="TypeError: no such pile")
    store.fold(
        [start("1"), TurnStarted("1", 0, "First", "policy", []), TurnStarted("1", 1, "Second", "policy", [])]
    )
    store.fold([TokensSampled("1", 1, tokens("[2"), [-1.0, -2.0]), EpisodeFinished(failed)])
    first, second = store.episodes["1"].turns
    assert (first.text, second.text, second.shown(decode)) == ("[1]", None, "[2")


def test_an_episode_in_play_names_the_edits_it_is_played_under(store: Store) -> None:
    store.fold([EpisodeStarted("1", "nim", None, True, {}, {"First": 3})])
    assert store.episodes["1"].edits == {"First": 3}


def test_tokens_of_a_turn_add_up_to_its_text(store: Store) -> None:
    store.fold([start("1"), TurnStarted("1", 0, "First", "policy", [])])
    store.fold([TokensSampled("1", 0, tokens("[2"), [0.0, 0.0])])
    store.fold([TokensSampled("1", 0, tokens("]"), [0.0])])
    turn = store.episodes["1"].turns[0]
    assert turn.shown(decode) == "[2]"
    assert turn.shown(decode, 2) == "2]"
    assert turn.text is None


def test_a_character_cut_in_two_is_not_shown_until_it_is_whole() -> None:
    store = Store(lambda taken: bytes(taken).decode(errors="replace"))
    half = list("é".encode())
    store.fold([TurnStarted("1", 0, "A", "policy", []), TokensSampled("1", 0, [*b"caf", half[0]], [])])
    turn = store.episodes["1"].turns[0]
    assert turn.shown(store.decode) == "caf"
    store.fold([TokensSampled("1", 0, half[1:], [])])
    assert turn.shown(store.decode) == "café"


def test_a_finished_turn_shows_the_text_it_finished_with(store: Store) -> None:
    store.fold([start("1"), TurnStarted("1", 0, "First", "policy", []), TokensSampled("1", 0, tokens("[9"), [])])
    store.fold([TurnFinished("1", 0, "First", "[9] done", 4, "length")])
    turn = store.episodes["1"].turns[0]
    assert (turn.shown(decode), turn.version, turn.stop_reason) == ("[9] done", 4, "length")


def test_a_turn_too_short_to_be_reported_has_its_tokens_at_its_end(store: Store) -> None:
    store.fold([start("1"), TurnStarted("1", 0, "First", "policy", [])])
    store.fold([TurnFinished("1", 0, "First", "[9]", 4, "stop", tokens("[9]"), [-1.0, -2.0, -0.5])])
    turn = store.episodes["1"].turns[0]
    assert (turn.tokens, turn.logprobs) == (tokens("[9]"), [-1.0, -2.0, -0.5])


def test_an_episode_is_live_until_it_finishes(store: Store, clock: Clock) -> None:
    store.fold([start("1"), start("2")])
    clock.now = 5.0
    store.fold([EpisodeFinished(result("1", {"First": 1.0, "Second": -1.0}, edits={"First": 2}))])
    assert [episode.id for episode in store.live()] == ["2"]
    ended = store.episodes["1"]
    assert (ended.ended, ended.rewards, ended.edits) == (5.0, {"First": 1.0, "Second": -1.0}, {"First": 2})


def test_children_finish_with_their_parent_and_count_once(store: Store) -> None:
    child = result("1.0", {"Second": 0.5})
    parent = GenerateResult(result("1", {"First": 1.0}).rollout, [child])
    store.fold([start("1"), start("1.0"), EpisodeFinished(child), EpisodeFinished(parent)])
    store.fold([StepFinished(1, {})])
    assert store.finished == 2
    assert store.rewards.ledgers["", "Second"].closed[-1].count == 1


def test_evaluations_and_failures_stay_out_of_the_rewards(store: Store) -> None:
    store.fold(
        [
            EpisodeFinished(result("1", {"First": 1.0})),
            EpisodeFinished(result("eval-0/1", {"First": -9.0}, trainable=False)),
            EpisodeFinished(result("2", {"First": -9.0}, error="ValueError: no")),
        ]
    )
    assert store.rewards.ledgers["", "First"].now.value == 1.0
    assert store.errors[-1] == ("2", "ValueError: no")


def test_a_steps_mean_reward_is_of_the_episodes_before_it(store: Store) -> None:
    for number, reward in enumerate([1.0, 0.0, 0.5]):
        store.fold([EpisodeFinished(result(str(number), {"First": reward}))])
    store.fold([StepFinished(1, {"loss": 0.25}), EpisodeFinished(result("9", {"First": -1.0}))])
    ledger = store.rewards.ledgers["", "First"]
    assert ledger.closed[-1].value == pytest.approx(0.5)
    assert ledger.now.value == -1.0
    assert store.series["reward/First"].ys == pytest.approx([0.5])
    assert store.series["loss"].ys == [0.25]


def test_the_runs_own_mean_reward_is_taken_where_it_says_one(store: Store) -> None:
    store.fold([EpisodeFinished(result("1", {"First": 1.0})), StepFinished(1, {"reward/First": 0.75})])
    assert store.series["reward/First"].ys == [0.75]


def test_credit_reaches_the_turns_of_its_step(store: Store) -> None:
    done = result("1", {"First": 1.0})
    store.fold([EpisodeFinished(done)])
    before = store.episodes["1"].revision
    done.rollout.turns[0].credit = Credit(0.5, 1.0, 0.5)
    store.fold([CreditAssigned(1, [done])])
    assert store.episodes["1"].turns[0].credit == Credit(0.5, 1.0, 0.5)
    assert store.episodes["1"].revision > before


def test_the_verdict_is_first_latest_and_best_of_the_metric_that_counts(store: Store) -> None:
    assert store.verdict is None
    for step, win in enumerate([0.5, 0.9, 0.8]):
        store.fold([EvaluationFinished(10 * step, {"draws": 0.1, "win": win})])
    verdict = store.verdict
    assert verdict is not None
    assert (verdict.metric, verdict.first, verdict.latest, verdict.best) == ("win", 0.5, 0.8, 0.9)


def test_the_best_is_the_lowest_where_less_is_better() -> None:
    store = Store(decode, metric="exploitability", goal="min")
    store.fold([EvaluationFinished(step, {"exploitability": value}) for step, value in enumerate([0.9, 0.2, 0.4])])
    assert store.best == 0.2


def test_edits_and_kept_checkpoints_are_marked_and_only_the_latest_best(store: Store) -> None:
    store.fold(
        [
            EditApplied(1, 4, "role First", "a", "b"),
            CheckpointSaved(4, "c/4", "auto"),
            CheckpointSaved(5, "c/5", "manual"),
            CheckpointSaved(6, "c/6", "best"),
            CheckpointSaved(8, "c/8", "best"),
        ]
    )
    marks = [(mark.step, mark.kind, mark.label) for mark in store.marks]
    assert marks == [(4, "edit", "edit 1"), (5, "checkpoint", ""), (8, "best", "")]


def test_a_reason_comes_with_the_state(store: Store) -> None:
    store.fold([StateChanged(RunState.FAILED, "out of memory"), Notice("careful", "warning")])
    assert (store.run_state, store.reason) == (RunState.FAILED, "out of memory")
    assert store.notices[0].text == "careful"


def test_an_episode_whose_beginning_was_missed_is_taken_in(store: Store) -> None:
    store.fold([TurnStarted("eval-10/3", 2, "Second", "random", []), TokensSampled("8", 1, tokens("x"), [])])
    assert store.episodes["eval-10/3"].is_evaluation
    assert not store.episodes["eval-10/3"].is_trainable
    assert store.episodes["8"].turns[0].index == 1


def test_losing_sight_forgets_what_seemed_live_and_keeps_what_ended(store: Store) -> None:
    store.fold([start("1"), start("2"), EpisodeFinished(result("1", {"First": 1.0}))])
    store.lose_sight()
    assert list(store.episodes) == ["1"]


def test_the_store_stays_small_over_a_long_run() -> None:
    run = FakeRun(episodes=8, steps=10_000, seconds_per_tick=0)
    store = Store(run.decode, lambda: 0.0)
    stream = run.watch()
    run.begin()
    for _ in range(40):
        run.advance(200)
        store.fold(stream.drain())
    assert store.step > 60
    assert len(store.episodes) <= KEPT + 8 + 24
    assert all(len(series.xs) <= 4096 for series in store.series.values())
    assert store.finished > 8 * store.step - 100


def test_depth_is_read_from_the_id(store: Store) -> None:
    store.fold([start("17"), start("17.0"), start("17.0.2"), start("eval-4/a/3"), start("eval-4/a/3.1")])
    assert [episode.depth for episode in store.episodes.values()] == [0, 1, 2, 0, 1]


def test_a_number_that_is_none_is_kept_as_it_came(store: Store) -> None:
    store.fold([StepFinished(1, {"loss": math.nan}), StepFinished(2, {"loss": 1.0})])
    assert math.isnan(store.series["loss"].ys[0])
