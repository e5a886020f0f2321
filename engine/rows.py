"""How rollouts become rows of the store, and come back.

Token ids, log-probabilities and versions are stored exactly (int32, float32, int32), and so is what a constrained
reply was chosen among: how many ids each token had, then the ids (int32; NULL where every token was allowed). What
a task put into artifacts and extras is stored as JSON, so that a tuple comes back as a list and a foreign object as
its `repr`.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import lru_cache
from itertools import chain
from sqlite3 import Connection, Row
from typing import Any

from engine.types import (
    Completion,
    Credit,
    Fate,
    GenerateResult,
    Learnt,
    Rollout,
    Sampling,
    StopReason,
    Turn,
    settled,
)


@dataclass(frozen=True, slots=True)
class StoredEpisode:
    """One episode as the store lists it; `Store.turns` has what was said."""

    rollout: Rollout
    """Without its turns."""
    step: int
    """The step that learnt from it, or the one after which it was played in evaluation."""
    evaluation: bool
    parent: str | None
    trainable: bool
    sitting: bool = False
    """Whether a person played in it (`engine.sitting.game`): neither training, unless asked for, nor evaluation."""


TABLES = """
CREATE TABLE episodes (
    id TEXT PRIMARY KEY, step INTEGER, evaluation INTEGER, parent TEXT, type TEXT, trainable INTEGER, artifact TEXT,
    "group" TEXT, rewards TEXT, breakdown TEXT, extras TEXT, players TEXT, edits TEXT, error TEXT, unscored TEXT,
    tags TEXT, weights TEXT
);
CREATE INDEX episodes_by_step ON episodes (step);
CREATE TABLE turns (
    episode TEXT, "index" INTEGER, role TEXT, player TEXT, trainable INTEGER, illegal INTEGER, messages TEXT,
    text TEXT, prompt_tokens BLOB, tokens BLOB, logprobs BLOB, versions BLOB, stop_reason TEXT, sampling TEXT,
    credit TEXT, allowed BLOB, learnt TEXT, ratios BLOB, PRIMARY KEY (episode, "index")
);
"""
EPISODE = (
    "id", "step", "evaluation", "parent", "type", "trainable", "artifact", "group", "rewards", "breakdown",
    "extras", "players", "edits", "error", "unscored", "tags", "weights",
)  # fmt: skip
TURN = (
    "episode", "index", "role", "player", "trainable", "illegal", "messages", "text", "prompt_tokens", "tokens",
    "logprobs", "versions", "stop_reason", "sampling", "credit", "allowed", "learnt", "ratios",
)  # fmt: skip
SAMPLING = tuple(field.name for field in fields(Sampling))
CREDIT = tuple(field.name for field in fields(Credit))
LEARNT = tuple(field.name for field in fields(Learnt))
ADDED = (
    ("turns", "allowed", "BLOB"), ("turns", "learnt", "TEXT"), ("turns", "ratios", "BLOB"),
    ("episodes", "tags", "TEXT"), ("episodes", "weights", "TEXT"),
)  # fmt: skip
"""Columns that the tables of older runs lack."""


@dataclass(slots=True)
class Prepared:
    """Rows of episodes and of their turns. To make them takes many times as long as to insert them."""

    step: int
    evaluation: bool | None
    """None of episodes in which a person plays."""
    episodes: list[tuple[Any, ...]] = field(default_factory=list)
    turns: list[tuple[Any, ...]] = field(default_factory=list)

    def add(self, result: GenerateResult) -> None:
        """An episode and all it spawned, as they are now."""
        for node, parent in walk([result]):
            self.episodes.append(episode_row(node, parent, self.step, self.evaluation))
            self.turns += [turn_row(node.rollout.id, turn) for turn in node.rollout.turns]


def insert(
    connection: Connection, results: Iterable[GenerateResult] | Prepared, step: int, *, evaluation: bool | None
) -> None:
    """Episodes and their turns into `TABLES`. `evaluation` is None of those in which a person plays."""
    if isinstance(results, Prepared):
        made = results
    else:
        made = Prepared(step, evaluation)
        for result in results:
            made.add(result)
    connection.executemany(_insertion("episodes", EPISODE), made.episodes)
    connection.executemany(_insertion("turns", TURN), made.turns)


def walk(results: Iterable[GenerateResult]) -> Iterator[tuple[GenerateResult, str | None]]:
    """Every result and its parent's id, parents first."""
    for result in results:
        for node in result.walk():
            if node is result:
                yield node, None
            for child in node.children:
                yield child, node.rollout.id


def episode_row(result: GenerateResult, parent: str | None, step: int, evaluation: bool | None) -> tuple[Any, ...]:
    rollout = result.rollout
    return (
        rollout.id,
        step,
        evaluation,
        parent,
        rollout.episode_type,
        result.is_trainable,
        to_json(rollout.artifact),
        rollout.group,
        to_json(rollout.rewards),
        to_json(rollout.breakdown),
        to_json(rollout.extras),
        to_json(rollout.players),
        to_json(rollout.edits),
        None if rollout.error is None else to_text(rollout.error),
        rollout.unscored,
        to_json(rollout.tags),
        to_json(rollout.weights),
    )


def episode(row: Row) -> StoredEpisode:
    rollout = Rollout(
        id=row["id"],
        episode_type=row["type"],
        artifact=json.loads(row["artifact"]),
        group=row["group"],
        rewards=json.loads(row["rewards"]),
        breakdown=json.loads(row["breakdown"]),
        extras=json.loads(row["extras"]),
        players=json.loads(row["players"]),
        edits=json.loads(row["edits"]),
        error=None if row["error"] is None else from_text(row["error"]),
        unscored=row["unscored"],
        tags=json.loads(_since(row, "tags") or "{}"),
        weights=json.loads(_since(row, "weights") or "{}"),
    )
    kind = row["evaluation"]
    return StoredEpisode(rollout, row["step"], bool(kind), row["parent"], bool(row["trainable"]), kind is None)


def turn_row(rollout_id: str, turn: Turn) -> tuple[Any, ...]:
    completion, credit = turn.completion, turn.credit
    return (
        rollout_id,
        turn.index,
        turn.role,
        completion.player,
        turn.trainable,
        turn.illegal,
        to_json(turn.messages),
        to_text(completion.text),
        array("i", completion.prompt_tokens).tobytes(),
        array("i", completion.tokens).tobytes(),
        array("f", completion.logprobs).tobytes(),
        _repeated(completion.versions),
        completion.stop_reason.value,
        _sampling_json(completion.sampling),
        None if credit is None else to_json({name: getattr(credit, name) for name in CREDIT}),
        _allowed_blob(completion.allowed),
        None if turn.learnt is None else to_json({name: getattr(turn.learnt, name) for name in LEARNT}),
        array("f", turn.ratios).tobytes() if turn.ratios else None,
    )


def turn(row: Row) -> Turn:
    tokens = _numbers("i", row["tokens"])
    versions = _numbers("i", row["versions"])
    completion = Completion(
        text=from_text(row["text"]),
        prompt_tokens=_numbers("i", row["prompt_tokens"]),
        tokens=tokens,
        logprobs=_numbers("f", row["logprobs"]),
        versions=versions * len(tokens) if len(versions) == 1 else versions,
        stop_reason=StopReason(row["stop_reason"]),
        player=row["player"],
        sampling=_sampling(json.loads(row["sampling"])),
        allowed=_allowed(_since(row, "allowed"), len(tokens)),
    )
    return Turn(
        role=row["role"],
        index=row["index"],
        messages=json.loads(row["messages"]),
        completion=completion,
        trainable=bool(row["trainable"]),
        illegal=bool(row["illegal"]),
        credit=None if row["credit"] is None else Credit(**json.loads(row["credit"])),
        learnt=_learnt(_since(row, "learnt")),
        ratios=_numbers("f", _since(row, "ratios") or b""),
    )


def to_json(value: Any, *, sort_keys: bool = False) -> str:
    """JSON in ASCII, lone surrogates escaped; NaN and infinities as Python writes them."""
    return (_SORTED if sort_keys else _PLAIN).encode(value)


def to_text(text: str) -> str | bytes:
    """Text for SQLite. What isn't valid Unicode (a lone surrogate) goes in as bytes, and comes back the same."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass")
    return text


def from_text(stored: str | bytes) -> str:
    return stored.decode(errors="surrogatepass") if isinstance(stored, bytes) else stored


def _insertion(table: str, columns: tuple[str, ...]) -> str:
    names = ", ".join(f'"{column}"' for column in columns)
    return f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"


def _foreign(value: Any) -> Any:
    numpy = sys.modules.get("numpy")  # whoever made a value of numpy's has imported it; it takes 0.2 s
    if numpy is not None and isinstance(value, numpy.generic):
        return value.item()
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return repr(value)


# `json.dumps` makes an encoder for each call that isn't all defaults, and a step has some thousands of calls.
_PLAIN = json.JSONEncoder(default=_foreign)
_SORTED = json.JSONEncoder(default=_foreign, sort_keys=True)


def _since(row: Row, column: str) -> Any:
    """A value of a column in `ADDED`: an older run, opened only to be read, hasn't got it."""
    return row[column] if column in row.keys() else None  # noqa: SIM118


def _learnt(stored: str | None) -> Learnt | None:
    if stored is None:
        return None
    values = json.loads(stored)
    return Learnt(**values | {"fate": Fate(values["fate"])})


def _repeated(versions: list[int]) -> bytes:
    """Nearly always every token is of one version: then it is stored once."""
    constant = len(versions) > 1 and versions.count(versions[0]) == len(versions)
    return array("i", versions[:1] if constant else versions).tobytes()


@lru_cache(64)
def _sampling_json(sampling: Sampling) -> str:
    """Of a step's turns nearly all are sampled alike, and making JSON of it is a third of making a row."""
    return to_json({name: getattr(sampling, name) for name in SAMPLING})


def _sampling(stored: Any) -> Sampling:
    """Runs of before there were more than five settings hold these as a list."""
    return Sampling(*stored) if isinstance(stored, list) else Sampling(**settled(stored))


def _allowed_blob(allowed: list[list[int]]) -> bytes | None:
    return array("i", [*map(len, allowed), *chain.from_iterable(allowed)]).tobytes() if allowed else None


def _allowed(blob: bytes | None, tokens: int) -> list[list[int]]:
    if blob is None:
        return []
    numbers = iter(_numbers("i", blob))
    counts = [next(numbers) for _ in range(tokens)]
    return [[next(numbers) for _ in range(count)] for count in counts]


def _numbers(kind: str, blob: bytes) -> list[Any]:
    return array(kind, blob).tolist()
