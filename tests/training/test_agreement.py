"""Sampler and learner agree: what a batch recorded of a token, and what a pass over the conversation says of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pytest

from engine.config import LoRAConfig, TrainConfig
from engine.inference import gguf, gguf_model, gguf_tokenizer, models
from engine.inference.adapters import Adapters, Parameters
from engine.inference.batcher import Batcher
from engine.inference.constraints import Choices
from engine.inference.models import LanguageModel
from engine.inference.requests import Finished, Request
from engine.inference.tokenizer import ChatTokenizer
from engine.training import batching
from engine.training.learner import Learner
from engine.types import BASE, POLICY, EpisodeRequest, Sampling, TrainingRecord
from tests.inference.conftest import moved
from tests.inference.test_chats import Talk, arena_of
from tests.inference.test_clients import Local
from tests.smollm2 import file_or_skip
from tests.training.conftest import LORA, Tiny, finish

AGREED = 1e-3
"""The most a log-probability may differ by, in nats."""

PLAYERS = (BASE, POLICY, "other")
TEMPERATURES = (0.3, 1.0, 1.7)
PATHS = ("miss", "group", "next turn", "long", "late")
CHUNK = 128
"""Prompts longer than this are computed in chunks. What is known of shorter ones pays from 64 tokens on."""
LEGAL = Choices([[10, 20, 30, 2], [10, 21, 2], [11, 2], [12, 20, 2], [12, 2]])


@dataclass
class Table:
    """A model with its players, and what they were heard to say, all in the same batches."""

    lm: LanguageModel
    adapters: Adapters
    weights: dict[str, Parameters]
    records: dict[tuple[str, float, bool, str], list[TrainingRecord]] = field(default_factory=dict)
    """By player, temperature, whether constrained, and path."""
    hits: int = 0
    """Prompts that began with something known."""
    together: int = 0
    """The most players that were in one batch."""

    @classmethod
    def of(cls, lm: LanguageModel, adapters: Adapters, parameters: Callable[[int], Parameters]) -> Table:
        weights = {BASE: adapters.initial(0), POLICY: parameters(1), "other": parameters(2)}
        for version, player in enumerate(PLAYERS):
            if player != BASE:
                adapters.publish(player, weights[player], version)
        table = cls(lm, adapters, weights)
        table.play()
        return table

    def play(self) -> None:
        """Everyone speaks at every temperature, on every path."""
        batcher = Batcher(self.lm, self.adapters, rows=40, prefix_bytes=1 << 24, chunk=CHUNK)
        rng = np.random.default_rng(0)
        asked: dict[int, tuple[tuple[str, float, bool, str], str, Request]] = {}
        pending: list[tuple[int, tuple, str, list[int]]] = []

        def ask(kind: tuple[str, float, bool, str], rollout: str, prompt: list[int]) -> None:
            player, temperature, constrained, _ = kind
            sampling, id = Sampling(temperature, max_tokens=10), len(asked)
            request = Request(id, prompt, sampling, player, key=id, choices=LEGAL if constrained else None)
            asked[id] = kind, rollout, request
            batcher.add(request)

        for index, about in enumerate(product(PLAYERS, TEMPERATURES, (False, True))):
            short, late = (rng.integers(3, 260, rng.integers(90, 110)).tolist() for _ in range(2))
            ask((*about, "miss"), f"{index}", short)
            ask((*about, "long"), f"{index} long", rng.integers(3, 260, 3 * CHUNK + index).tolist())
            pending += [(4, (*about, "group"), f"{index} group {sample}", short) for sample in range(2)]
            pending.append((6, (*about, "late"), f"{index} late", late))
        tick = 0
        while len(batcher) or pending:
            for entry in [entry for entry in pending if entry[0] <= tick]:
                pending.remove(entry)
                ask(*entry[1:])
            for end in batcher.tick().finished:
                kind, rollout, request = asked[end.id]
                self.records.setdefault(kind, []).append(recorded(rollout, request, end))
                *about, path = kind
                if path == "miss":
                    said = [*request.prompt, *end.tokens, *rng.integers(3, 260, 5).tolist()]
                    ask((*about, "next turn"), rollout, said)  # pyright: ignore[reportArgumentType]
            self.together = max(self.together, len({row.request.player for row in batcher._rows}))
            tick += 1
        self.hits = batcher.stats.hits

    def heard(self, player: str, *, path: str | None = None, temperature: float | None = None):
        """Records of a player; "next turn" with the turns that these continue."""
        paths = PATHS if path is None else ("miss", "next turn") if path == "next turn" else (path,)
        return [
            record
            for (who, at, _, on), records in self.records.items()
            if who == player and on in paths and temperature in (None, at)
            for record in records
        ]

    def learner(self, player: str) -> Learner:
        """A learner whose parameters are the player's."""
        train = TrainConfig(warmup=0, microbatch_tokens=1500)
        learner = Learner(self.lm, self.adapters, train, 0)
        learner.parameters, learner.version = self.weights[player], self.adapters.version(player)
        return learner


def recorded(rollout: str, request: Request, end: Finished) -> TrainingRecord:
    return TrainingRecord(
        rollout,
        len(request.prompt),
        request.player,
        "game",
        request.prompt,
        end.tokens,
        end.logprobs,
        end.versions,
        1.0,
        request.sampling.temperature,
        end.allowed,
    )


@pytest.fixture(scope="module")
def tiny_table(tiny: Tiny) -> Table:
    lm, _ = models.load(str(tiny.folder), context=512)
    adapters = Adapters(lm, LORA)
    return Table.of(lm, adapters, lambda seed: moved(adapters, seed))


@pytest.fixture(scope="module")
def pocket_table() -> Table:
    lm, _ = models.load("pocket", context=512)
    adapters = Adapters(lm, LoRAConfig(rank=4))
    return Table.of(lm, adapters, lambda seed: moved(adapters, seed))


@pytest.fixture(params=["tiny", "pocket"])
def table(request: pytest.FixtureRequest) -> Table:
    return request.getfixturevalue(f"{request.param}_table")


def agreement(learner: Learner, records: Sequence[TrainingRecord]) -> float:
    """The largest difference, once it is certain that every token was compared."""
    metrics = finish(learner, list(records))
    assert metrics["active_tokens"] == sum(len(record.tokens) for record in records) > 0
    assert metrics["ratio_mean"] == pytest.approx(1.0, abs=AGREED)
    return metrics["mismatch_max"]


def test_all_paths_were_taken_by_rows_of_different_players_in_one_batch(table: Table):
    kinds = set(product(PLAYERS, TEMPERATURES, (False, True), PATHS))
    assert table.records.keys() == kinds
    assert table.together == 3
    assert table.hits >= 3 * len(kinds) // len(PATHS)  # each group's two others, and each next turn
    constrained = [
        bool(record.allowed) for (_, _, limited, _), rs in table.records.items() if limited for record in rs
    ]
    assert all(constrained)


@pytest.mark.parametrize("player", PLAYERS)
@pytest.mark.parametrize("path", PATHS)
def test_they_agree_on_every_slot_and_prefix_path(table: Table, player: str, path: str):
    records = table.heard(player, path=path)
    assert agreement(table.learner(player), records) < AGREED
    if path == "next turn":
        assert len(batching.rows(records)) == len(records) / 2  # a conversation is one row


@pytest.mark.parametrize("player", PLAYERS)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_they_agree_at_every_temperature(table: Table, player: str, temperature: float):
    records = table.heard(player, temperature=temperature)
    assert {bool(record.allowed) for record in records} == {False, True}
    assert agreement(table.learner(player), records) < AGREED


@pytest.mark.parametrize("player", PLAYERS)
def test_another_players_weights_would_be_noticed(table: Table, player: str):
    other = PLAYERS[(PLAYERS.index(player) + 1) % 3]
    learner = table.learner(other)
    learner.version = table.adapters.version(player)
    assert finish(learner, table.heard(player, path="miss"))["mismatch_max"] > 0.1


def test_after_a_publish_midway_only_tokens_of_the_learners_own_version_are_compared(tiny: Tiny):
    """Old tokens are the old weights'. New ones of rows in flight were sampled over keys of the old weights."""
    learner = tiny.learner()
    learner.parameters = tiny.moved(1)
    learner.version = 6
    learner.publish("midway")
    batcher = Batcher(tiny.lm, tiny.adapters)
    prompts = {id: record.prompt_tokens for id, record in enumerate(tiny.records(16))}
    requests = {
        id: Request(id, prompt, Sampling(max_tokens=16), "midway", key=id) for id, prompt in prompts.items()
    }
    records: dict[int, TrainingRecord] = {}

    def tick() -> None:
        for end in batcher.tick().finished:
            records[end.id] = recorded(f"{end.id}", requests[end.id], end)

    for id in range(8):
        batcher.add(requests[id])
    for _ in range(4):
        tick()
    learner.parameters = {name: array + 0.02 for name, array in tiny.moved(1).items()}
    learner.publish("midway")
    for id in range(8, 16):
        batcher.add(requests[id])
    while len(batcher):
        tick()
    both = [record for record in records.values() if set(record.versions) == {7, 8}]
    fresh = [record for record in records.values() if set(record.versions) == {8}]
    assert len(both) >= 3
    assert len(fresh) == 8

    apart = np.concatenate([off(tiny, record, learner) for record in records.values()])
    own = np.concatenate([record.versions for record in records.values()]) == 8
    weights = dict(learner.parameters)
    metrics = finish(learner, list(records.values()))
    assert metrics["mismatch_mean"] == pytest.approx(apart[own].mean(), abs=1e-5)
    assert metrics["mismatch_max"] == pytest.approx(apart[own].max(), abs=1e-4)
    assert apart[own].max() > 10 * AGREED  # kept keys, as said above; and old tokens are further off
    assert apart[~own].mean() > 10 * AGREED
    learner.parameters = weights
    assert finish(learner, fresh)["mismatch_max"] < AGREED
    learner.parameters, learner.version = weights, 9
    assert "mismatch_max" not in finish(learner, fresh)


def off(tiny: Tiny, record: TrainingRecord, learner: Learner) -> np.ndarray:
    logs = tiny.logs(record, learner.parameters)
    return np.abs(logs[np.arange(len(record.tokens)), record.tokens] - record.logprobs)


async def test_chats_of_six_turns_a_side_are_one_row_a_side_and_agree_there(tiny: Tiny):
    """Rendered by the chat template, sampled, credited, and computed in two fifths of the tokens at most."""
    async with Local(tiny.folder, lockstep=True, context=512) as local:
        arena = arena_of(local, Talk())
        towns = ("Bergen", "Oslo", "Turku", "Narvik")
        records = arena.records(await arena.generate_rollouts([EpisodeRequest("talk", town) for town in towns]))

        def learner() -> Learner:
            """As the policy's slot was filled."""
            made = Learner(local.lm, local.adapters, TrainConfig(), 0)
            made.parameters, made.version = moved(local.adapters, 1), 1
            return made

        merged = await local.device.work((await local.device.call(learner)).step(records))
        for index, record in enumerate(records):
            record.rollout_id = f"{index}"
        apart = await local.device.work((await local.device.call(learner)).step(records))
    assert len(records) == 4 * 2 * 6
    assert merged["turns"] == apart["turns"] == 48.0
    assert merged["active_tokens"] == apart["active_tokens"]
    assert merged["tokens"] < apart["tokens"]
    assert apart["computed_tokens"] >= 2.5 * merged["computed_tokens"]
    assert max(merged["mismatch_max"], apart["mismatch_max"]) < AGREED


@pytest.mark.slow
def test_a_real_chat_model_agrees_with_itself():
    """In float32: MLX's quantised products take minutes on a CPU."""
    path = file_or_skip()
    header = gguf.read(path)
    model, config = gguf_model.load(header, dense=True)
    lm = LanguageModel(model, str(path), path, config, 512)
    lm.eos_tokens = gguf_tokenizer.eos_tokens(header)
    tokenizer = ChatTokenizer(gguf_tokenizer.tokenizer(header), lm.eos_tokens)
    adapters = Adapters(lm, LoRAConfig(rank=2))
    rng = np.random.default_rng(0)
    weights = {
        name: array + 0.01 * rng.normal(size=array.shape).astype(np.float32)
        for name, array in adapters.initial(0).items()
    }
    adapters.publish(POLICY, weights, 1)
    batcher = Batcher(lm, adapters, prefix_bytes=1 << 26)
    prompt = tokenizer.prompt([{"role": "user", "content": "Tell me a joke about a whale. " * 5}])
    requests: dict[int, Request] = {}
    records: list[TrainingRecord] = []

    def ask(id: int, prompt: list[int], temperature: float) -> None:
        requests[id] = Request(id, prompt, Sampling(temperature, max_tokens=8), POLICY, key=id)
        batcher.add(requests[id])

    for id, temperature in enumerate((1.0, 0.3, 1.7)):
        ask(id, prompt, temperature)
    while len(batcher):
        for end in batcher.tick().finished:
            records.append(recorded(f"{end.id % 10}", requests[end.id], end))
            if end.id < 10:  # go on after the answer
                ask(10 + end.id, [*prompt, *end.tokens, *tokenizer.encode("\nAnother one:")], 1.0)
    assert batcher.stats.hits == 3
    assert len(batching.rows(records)) == len(records) / 2 == 3
    learner = Learner(lm, adapters, TrainConfig(), 0)
    learner.parameters, learner.version = weights, 1
    assert agreement(learner, records) < AGREED
