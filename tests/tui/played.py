"""A run's record with all its episodes, made without a model, to be replayed: the same each time."""

from __future__ import annotations

import random
from pathlib import Path

from engine import config as configuration
from engine.config import Config, EvalConfig, RunConfig, TaskConfig
from engine.events import CheckpointSaved, EditApplied, EvaluationFinished, Notice, RunState
from engine.rewards.judge import Judgement
from engine.store import Store
from engine.types import Completion, Credit, GenerateResult, Message, Rollout, Turn

CONFIG = Config(
    title="Nim",
    task=TaskConfig(name="nim"),
    run=RunConfig(steps=40, episodes_per_step=8),
    eval=EvalConfig(every=10, metric="win_vs_random"),
)
PROMPT = "You play Nim. Take one to three sticks. Who takes the last wins."

NEEDLE = "27"
"""The one episode that says `zugzwang`, in its third turn: the fourth of step 4."""

LONG = "48"
"""The longest, in step 7."""

ILLEGAL = "66"
"""With the one turn that is ruled out, in step 9."""

UPSET = "57"
"""With the reward most unlike its baseline, in step 8."""

SPLIT = "45"
"""Whose judge disagrees, in step 6."""


def record(folder: Path, steps: int = 12, episodes: int = 8, seed: int = 0) -> Path:
    """A run of so many steps, its end recorded."""
    with Store.create(folder) as store:
        configuration.save(CONFIG, folder / "config.toml")
        evaluate(store, 0, seed)
        for step in range(1, steps + 1):
            add_step(store, step, episodes, seed)
            if step == 5:
                store.record_edit(EditApplied(1, 5, "role First", PROMPT, PROMPT + " Think."))
                store.record_notice(5, Notice("the prompt of First is longer now", "information"))
            if step % 10 == 0:
                evaluate(store, step, seed)
                store.record_checkpoint(CheckpointSaved(step, str(folder / "checkpoints"), "best"))
        store.record_state(RunState.FINISHED)
    return folder


def add_step(store: Store, step: int, episodes: int = 8, seed: int = 0) -> None:
    """One more step, played and learnt."""
    rng = random.Random(1000 * seed + step)
    first = episodes * (step - 1)
    results = [_episode(str(number), step, rng) for number in range(first, first + episodes)]
    metrics = {
        "reward/First": 0.1 + step / 100,
        "reward/Second": -0.1 - step / 100,
        "loss": 0.3 - step / 100,
        "entropy": 1.0 - step / 50,
    }
    store.record_step(step, step, 0.25 + step / 1000, metrics, results)


def _episode(rollout_id: str, step: int, rng: random.Random) -> GenerateResult:
    sticks, turns = rng.randint(9, 14), []
    texts = [f"There are {sticks} sticks. I take [{rng.randint(1, 3)}]." for _ in range(4)]
    if rollout_id == NEEDLE:
        texts[2] = "This is zugzwang [bold]: whatever I take, four are left."
    if rollout_id == LONG:
        texts *= 5
    for index, text in enumerate(texts):
        role = ("First", "Second")[index % 2]
        messages: list[Message] = [
            {"role": "system", "content": PROMPT},
            {"role": "user", "content": f"{sticks - index} sticks are left."},
        ]
        tokens = list(range(len(text) // 4))
        completion = Completion(text, [1, 2], tokens, [-0.5] * len(tokens), [step] * len(tokens))
        turns.append(Turn(role, index, messages, completion))
    won = -1.0 if rollout_id == UPSET else 1.0 if rng.random() < 0.75 else -1.0
    baseline = 0.95 if rollout_id == UPSET else 0.3
    rewards = {"First": won, "Second": -won}
    if rollout_id == ILLEGAL:
        turns[-1].illegal = True
    for turn in turns:
        expected = baseline if turn.role == "First" else -baseline
        reward = rewards[turn.role]
        turn.credit = Credit(reward - expected, reward, expected, group=f"nim/{turn.role}", group_size=8)
    rollout = Rollout(
        rollout_id,
        "nim",
        turns=turns,
        rewards=rewards,
        breakdown={"outcome": dict(rewards)},
        players={"First": "policy", "Second": "policy"},
        edits={"First": int(step > 5), "Second": 0},
    )
    if rollout_id == SPLIT:
        Judgement("choose", 0.5, False).keep_in(rollout.extras)
    return GenerateResult(rollout)


def evaluate(store: Store, step: int, seed: int = 0) -> None:
    """Four games against random play after a step."""
    rng, results = random.Random(seed + step), []
    for n in range(4):
        result = _episode(f"eval-{step}/{n}", step, rng)
        result.rollout.players["Second"] = "random"
        result.is_trainable = False
        for turn in result.rollout.turns:
            turn.credit = None
            if turn.role == "Second":
                turn.completion.player = "random"
        results.append(result)
    metrics = {"win_vs_random": 0.5 + step / 40, "optimal_moves": 0.3 + step / 50}
    store.record_evaluation(EvaluationFinished(step, metrics, step > 0), results)
