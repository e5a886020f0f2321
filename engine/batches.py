"""Batches of finished rollouts in a file of their own: the tables of a run's record, and nothing else.

Tokens, log-probabilities and versions come back bit for bit; of artifacts and extras, what JSON keeps (see `rows`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from engine import rows
from engine.types import GenerateResult


def write(path: Path, batches: Sequence[Sequence[GenerateResult]]) -> None:
    """Put batches into a new file, in their order. Raises `sqlite3.Error` if it can't be written."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")  # a file half written is thrown away as a whole
        for statement in rows.TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(batches)}")
        for number, results in enumerate(batches):
            rows.insert(connection, results, number, evaluation=False)
        connection.commit()


def read(path: Path) -> list[list[GenerateResult]]:
    """The batches of a file, trees and their order as they were. Raises `sqlite3.Error` if it isn't one."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        batches: list[list[GenerateResult]] = [[] for _ in range(_one(connection, "PRAGMA user_version"))]
        known: dict[str, GenerateResult] = {}
        for row in connection.execute("SELECT * FROM episodes ORDER BY rowid"):  # parents come first
            stored = rows.episode(row)
            result = GenerateResult(stored.rollout, is_trainable=stored.trainable)
            known[stored.rollout.id] = result
            beside = batches[stored.step] if stored.parent is None else known[stored.parent].children
            beside.append(result)
        for row in connection.execute('SELECT * FROM turns ORDER BY episode, "index"'):
            known[row["episode"]].rollout.turns.append(rows.turn(row))
    return batches


def _one(connection: sqlite3.Connection, query: str) -> int:
    return connection.execute(query).fetchone()[0]
