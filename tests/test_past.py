"""Earlier selves as opponents: who meets them, what trains, and that a resumed run meets the same ones."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine import Arena, EpisodeRequest, Role
from engine.config import Config, CreditConfig, PastConfig, TaskConfig
from engine.events import RunState
from engine.past import Past, _delete, copy, metrics, player
from engine.run import Run, RunError
from engine.steering.forking import fork, roll_back
from engine.store import Store
from engine.training import checkpoint, checkpoints
from engine.types import GenerateResult, Rollout
from tests.test_run import facts, small, until


def setup(kind: str = "rae", **past) -> Config:
    return Config(task=TaskConfig(name="x"), past=PastConfig(**past), credit=CreditConfig(kind=kind))


def arena(*roles: Role) -> Arena:
    made = Arena(seed=3)
    for role in roles or (Role("A"), Role("B")):
        made.add_role(role)
    return made


def remembering(*steps: int) -> Past:
    past = Past(Path("nowhere"))
    past.load_state([step, step] for step in steps)
    return past


def test_a_share_of_the_episodes_meets_one_of_the_newest_in_all_roles_but_one():
    requests = [EpisodeRequest("e", number) for number in range(2000)]
    past = remembering(0, 10, 20)
    among = arena(Role("A"), Role("B"), Role("judge", player="base"))
    seated = past.seated(requests, among, setup(share=0.25, keep=2))
    met = [request.players for request in seated if request.players]
    assert 0.22 < len(met) / len(seated) < 0.28
    assert all(len(players) == 1 for players in met)  # the judge is no part of the policy
    assert {role for players in met for role in players} == {"A", "B"}
    drawn = Counter(name for players in met for name in players.values())
    assert drawn.keys() == {player(10), player(20)}
    assert min(drawn.values()) > 0.4 * len(met)
    assert [request.artifact for request in seated] == list(range(2000))
    assert past.seated(requests, arena(), setup(share=0.0)) == requests
    assert remembering().seated(requests, arena(), setup(share=1.0)) == requests
    assert past.seated(requests, arena(Role("A")), setup(share=1.0)) == requests  # nobody to play against


def test_who_meets_whom_depends_on_the_seed_and_the_episodes_number_alone():
    requests = [EpisodeRequest("e") for _ in range(40)]
    one, other = arena(), arena()
    whole = remembering(0).seated(requests, one, setup(share=0.5))
    other.played = 24
    assert remembering(0).seated(requests[24:], other, setup(share=0.5)) == whole[24:]


def test_what_is_compared_meets_the_same_opponent_in_the_same_role():
    requests = [EpisodeRequest("e", number // 8) for number in range(80)]
    seated = remembering(0, 10).seated(requests, arena(), setup("grpo", share=0.5))
    groups = [[request.players for request in seated[at : at + 8]] for at in range(0, 80, 8)]
    assert all(players == group[0] for group in groups for players in group)
    assert len({str(group[0]) for group in groups}) > 2


def test_who_seats_a_player_or_trains_nothing_is_left_alone():
    requests = [EpisodeRequest("e", players={"A": "random"}), EpisodeRequest("e", is_trainable=False)]
    assert remembering(0).seated(requests, arena(), setup(share=1.0)) == requests


def test_what_the_live_policy_got_against_them_is_measured():
    def result(opponent: str, reward: float) -> GenerateResult:
        players = {"A": "policy", "B": opponent}
        return GenerateResult(Rollout("0", "e", None, players=players, rewards={"A": reward, "B": -reward}))

    met = [result(player(10), 1.0), result(player(20), 0.5), result("policy", -1.0)]
    assert metrics(met) == {"past_episodes": 2.0, "reward_vs_past": 0.75}
    assert metrics([result("policy", -1.0)]) == {}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Run:
    config = small(run__steps=4, checkpoint__keep=20, past__share=0.5, past__every=2, past__keep=2)
    run = Run.create(config, tmp_path_factory.mktemp("runs"), "whole")
    asyncio.run(run.start())
    assert run.state is RunState.FINISHED, run.reason
    return run


def test_only_the_live_policys_turns_have_credit(whole):
    with sqlite3.connect(whole.folder / "run.sqlite") as db:
        rows = db.execute("SELECT player, credit IS NOT NULL FROM turns WHERE episode NOT LIKE 'eval%'").fetchall()
    of = Counter(rows)
    assert {name for name, _ in of} == {"policy", "past-000000", "past-000002"}
    assert of["policy", 1] > 0
    assert not of["past-000000", 1] + of["past-000002", 1] + of["policy", 0]
    with Store.open(whole.folder, read_only=True) as store:
        assert all(0 < step.metrics["past_episodes"] < 8 for step in store.steps())
        assert all(-2 <= step.metrics["reward_vs_past"] <= 2 for step in store.steps())


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_run_that_goes_back_or_is_forked_meets_the_same_earlier_selves(whole, tmp_path, step):
    back = shutil.copytree(whole.folder, tmp_path / "back")
    roll_back(back, step)
    for folder in (back, fork(whole.folder, tmp_path, step=step, name="twin")):
        run = Run.open(folder)
        asyncio.run(run.start())
        assert run.state is RunState.FINISHED, run.reason
        assert facts(run)[1:] == facts(whole)[1:]


def played(folder: Path, step: int) -> list[tuple]:
    """All that was said in a step, by whom, and how likely it was."""
    of_step = "SELECT id FROM episodes WHERE step = ? AND evaluation = 0"
    said = (
        f'SELECT episode, "index", player, tokens, logprobs FROM turns WHERE episode IN ({of_step}) ORDER BY 1, 2'
    )
    with sqlite3.connect(folder / "run.sqlite") as db:
        return db.execute(said, (step,)).fetchall()


async def test_a_checkpoint_that_was_undone_meets_its_own_earlier_selves_where_others_came_since(whole, tmp_path):
    folder = shutil.copytree(whole.folder, tmp_path / "back")
    first = (folder / "past/step-000002/adapters.safetensors").read_bytes()
    checkpoints.mark(folder / "checkpoints/step-000003", "manual")
    roll_back(folder, 1)
    other = Run.open(folder)
    await other.set("train.learning_rate", "0.05")
    await other.start()
    assert other.state is RunState.FINISHED, other.reason
    assert played(folder, 4) != played(whole.folder, 4)

    roll_back(folder, 1)
    (folder / "undone/step-000003").rename(folder / "checkpoints/step-000003")
    twin = fork(folder, tmp_path, step=3, name="twin")
    assert [path.read_bytes() for path in twin.glob("past/step-*/adapters.safetensors")].count(first) == 1
    for again in (folder, twin):
        run = Run.open(again)
        await run.start()
        assert run.state is RunState.FINISHED, run.reason
        assert played(again, 4) == played(whole.folder, 4)


def test_a_checkpoint_of_before_folders_were_named_in_it_meets_its_earlier_selves(whole, tmp_path):
    folder = shutil.copytree(whole.folder, tmp_path / "old")
    roll_back(folder, 3)
    root, kept = folder / "checkpoints", checkpoint.load(folder / "checkpoints/step-000003")
    old = {**kept.state, "past": [taken[:2] for taken in kept.state["past"]]}
    assert old["past"] == [[0, 0], [2, 2]]

    def fill(draft: Path) -> None:
        shutil.copytree(kept.path, draft, dirs_exist_ok=True, ignore=shutil.ignore_patterns("manifest.json"))
        (draft / "state.json").write_text(json.dumps(old))

    checkpoints.commit(root, 3, fill, "auto")
    run = Run.open(folder)
    asyncio.run(run.start())
    assert run.state is RunState.FINISHED, run.reason
    assert facts(run)[1:] == facts(whole)[1:]


def test_an_earlier_self_that_is_gone_is_named(whole, tmp_path):
    folder = shutil.copytree(whole.folder, tmp_path / "gone")
    roll_back(folder, 3)
    shutil.rmtree(folder / "past/step-000002")
    run = Run.open(folder)
    asyncio.run(run.start())
    assert run.state is RunState.FAILED
    assert "past/step-000002: the earlier self kept there can't be read" in run.reason


@pytest.mark.parametrize("staleness", [0, pytest.param(1, marks=pytest.mark.slow)])
async def test_snapshots_that_nothing_needs_go_and_going_back_meets_the_same_ones(tmp_path, staleness):
    past = {"past__share": 0.5, "past__every": 1, "past__keep": 2}
    config = small(run__steps=8, run__max_staleness=staleness, checkpoint__keep=1, **past)
    run = Run.create(config, tmp_path, "run")
    playing = asyncio.create_task(run.start())
    await until(lambda: run.step == 3)
    kept = int((await run.checkpoint()).name.removeprefix("step-"))
    await until(lambda: run.step == 7)
    players = await run.trainer.device.call(lambda: run.trainer.adapters.players)
    await playing
    assert run.state is RunState.FINISHED, run.reason
    there = {int(path.name.removeprefix("step-")) for path in (run.folder / "past").iterdir()}
    states = [json.loads(file.read_text()) for file in run.folder.glob("checkpoints/*/state.json")]
    named = {step for state in states for step, *_ in state["past"]}
    assert named >= {kept - 2, kept - 1}
    assert named | {6, 7} <= there <= named | {4, 5, 6, 7}  # a checkpoint of then named the two before
    assert len([name for name in players if name.startswith("past-")]) <= 3

    roll_back(run.folder, kept)
    again = Run.open(run.folder)
    await again.start()
    assert again.state is RunState.FINISHED, again.reason
    if not staleness:
        whole = Run.create(config, tmp_path, "whole")
        await whole.start()
        assert facts(again)[1:] == facts(whole)[1:]


def keeping(there: list[str], saving: Callable[[], None] = lambda: None) -> Any:
    """A trainer with these players; `saving` happens while a snapshot is written."""

    class Adapters:
        players = property(lambda self: list(there))
        drop = staticmethod(there.remove)

    async def call(function, *arguments):
        return function(*arguments)

    async def save_player(name: str, folder: Path) -> int:
        saving()
        there.append(name)
        return 0

    return SimpleNamespace(adapters=Adapters(), device=SimpleNamespace(call=call), save_player=save_player)


async def test_who_is_played_against_now_stays_a_player_until_that_is_over(tmp_path):
    there = ["base", "policy", "average-3"]
    trainer = keeping(there)
    past, config = Past(tmp_path / "past"), setup(share=1.0, every=1, keep=1)
    for step in range(2):
        await past.keep_up(trainer, step, config.past)
    past.seated([EpisodeRequest("e")], arena(), config)  # against that of step 1
    await past.keep_up(trainer, 2, config.past, lambda: {player(1)})
    past.seated([EpisodeRequest("e")], arena(), config)  # against that of step 2
    await past.keep_up(trainer, 3, config.past, lambda: {player(1)})
    assert there == ["base", "policy", "average-3", player(1), player(2), player(3)]
    await past.keep_up(trainer, 4, config.past)
    assert there == ["base", "policy", "average-3", player(2), player(4)]


async def test_who_sits_down_while_a_snapshot_is_written_keeps_whom_they_play(tmp_path):
    there, guests = ["policy"], set[str]()
    trainer = keeping(there, lambda: guests.update({player(0)}.intersection(there)))
    past, config = Past(tmp_path / "past"), setup(share=1.0, every=1, keep=1)
    for step in range(2):
        await past.keep_up(trainer, step, config.past, lambda: set(guests))
    assert there == ["policy", player(0), player(1)]


def test_where_a_checkpoint_cannot_be_read_no_snapshot_is_deleted(tmp_path):
    for name in ("past/step-000000", "past/step-000010", "checkpoints/step-000010"):
        (tmp_path / name).mkdir(parents=True)
    state = tmp_path / "checkpoints/step-000010/state.json"
    strange = '{"past": [[10, 10, "../checkpoints/step-000010"]]}'
    for text, left in (("{", {0, 10}), (strange, {0, 10}), ('{"past": [[10, 10]]}', {10})):
        state.write_text(text)
        _delete(tmp_path / "past", ())
        assert {int(path.name[-6:]) for path in (tmp_path / "past").iterdir()} == left


@pytest.mark.parametrize("name", ["../../elsewhere", "/etc", "step-000010/..", "step-000010\n", ""])
def test_a_checkpoint_of_anothers_run_leads_nowhere_but_to_its_snapshots(tmp_path, name):
    run, other = tmp_path / "run", tmp_path / "deep/other"
    for folder in (tmp_path / "elsewhere", run / "past/step-000010", other / "past"):
        folder.mkdir(parents=True)
    state = {"past": [[10, 10, name]]}
    with pytest.raises(RunError, match="a checkpoint names an earlier self"):
        copy(run, other, state)
    with pytest.raises(RunError, match="a checkpoint names an earlier self"):
        Past(run).load_state(state["past"])
    assert {path.name for path in tmp_path.rglob("*")} == {
        *("elsewhere", "run", "past", "step-000010", "deep", "other")
    }


def test_what_a_killed_process_left_of_a_snapshot_goes_with_the_next_one(tmp_path):
    for name in ("step-000010", "step-000010.tmp-1f3c09ab", "step-000000"):
        (tmp_path / "past" / name).mkdir(parents=True)
    _delete(tmp_path / "past", {"step-000010"})
    assert [path.name for path in (tmp_path / "past").iterdir()] == ["step-000010"]


async def test_the_share_changes_while_the_run_is_at_work_within_its_bounds(tmp_path):
    run = Run.create(small(), tmp_path)
    assert {"past.share", "past.every", "past.keep"} <= {setting.key for setting in run.settings()}
    await run.set("past.share", "0.5")
    with pytest.raises(Exception, match=r"past\.share: wants a number from 0 to 1, not 2"):
        await run.set("past.share", "2")
    await run.start()
    with Store.open(run.folder, read_only=True) as store:
        assert store.steps()[-1].metrics["past_episodes"] > 0
    assert (run.folder / "past/step-000000/adapters.safetensors").exists()
    with pytest.raises(RunError):
        await run.set("past.share", "0.5")
