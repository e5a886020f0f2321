"""Full-text search over all that was said in a run.

The index is a file of its own beside the record (in the user's cache where that folder can't be written to), built
by SQLite's FTS5 and brought up to date step by step, also while the run goes on. It holds nothing that can't be
made again: one that is damaged or of another format is replaced. What to look for is read by `query`.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from engine.folders import beside
from engine.reading.query import Query
from engine.store import Store, address
from engine.types import EngineError

FILE = "search.sqlite"
FORMAT = 1

BATCH = 20
"""Steps that are taken in at once."""

SNIPPET = 24
"""Words of a text that are shown around what was found."""

START, END = "\x02", "\x03"
"""Around what was found; no text holds them, for they are left out of the index."""

SCHEMA = f"""
CREATE TABLE read (step INTEGER PRIMARY KEY, mark TEXT NOT NULL);
CREATE TABLE turns (
    id INTEGER PRIMARY KEY, step INTEGER, episode TEXT, "index" INTEGER, role TEXT, player TEXT, type TEXT,
    evaluation INTEGER, illegal INTEGER, reward REAL
);
CREATE INDEX turns_by_step ON turns (step);
CREATE VIRTUAL TABLE texts USING fts5 (said, asked, tokenize = "unicode61 remove_diacritics 2");
PRAGMA user_version = {FORMAT};
"""

TAKE_TURNS = """
INSERT INTO turns (step, episode, "index", role, player, type, evaluation, illegal, reward)
SELECT e.step, e.id, t."index", t.role, t.player, e.type, e.evaluation, t.illegal, (
    SELECT value FROM json_each(CASE WHEN json_valid(e.rewards) THEN e.rewards ELSE '{}' END) WHERE key = t.role
) FROM run.episodes e JOIN run.turns t ON t.episode = e.id WHERE e.step = ? ORDER BY e.rowid, t."index"
"""

TAKE_TEXTS = """
INSERT INTO texts (rowid, said, asked)
SELECT i.id, plain(CAST(t.text AS BLOB)), plain(CAST(
    CASE WHEN json_valid(t.messages) THEN json_extract(t.messages, '$[#-1].content') END AS BLOB))
FROM turns i JOIN run.turns t ON t.episode = i.episode AND t."index" = i."index" WHERE i.step = ?
"""
# as blobs: half a character would be refused as text


class SearchError(EngineError):
    """An index that can't be made or read: says where, and why."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One turn that was found."""

    rollout_id: str
    step: int
    turn: int
    role: str
    illegal: bool
    reward: float | None
    """What its role got; None where nothing was given."""
    snippet: tuple[tuple[str, bool], ...] = ()
    """The text around what was found, in pieces; True for the words that were looked for."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search gave."""

    hits: list[Hit]
    """In the order in which they were said, as many as were asked for."""
    total: int = 0
    by_step: dict[int, int] = field(default_factory=dict)
    """How many turns of each step were found, steps without any left out."""


class Index:
    """The index of the run in `folder`. Belongs to the thread that opened it, and only reads the run."""

    def __init__(self, path: Path, connection: sqlite3.Connection, store: Store) -> None:
        self.path = path
        self._connection = connection
        self._store = store

    @classmethod
    def open(cls, folder: Path, cache: Path) -> Index:
        """Opens it, or makes an empty one.

        Raises:
            StoreError: there is no run in that folder.
            SearchError: there is no place for the index: neither beside the run nor in `cache`.
        """
        store = Store.open(folder, read_only=True)
        try:
            path = beside(folder, FILE, cache)
            return cls(path, _opened(path, folder), store)
        except BaseException:
            store.close()
            raise

    def close(self) -> None:
        self._connection.close()
        self._store.close()

    def update(self, seconds: float = math.inf) -> int:
        """Takes in what changed, for about so long; returns how many steps are left to take in."""
        marks = self._store.step_marks()
        known = dict(self._ask("SELECT step, mark FROM read"))
        gone = [step for step in known if step not in marks]
        new = [step for step, mark in marks.items() if known.get(step) != mark]
        left, until = deque([*gone, *new]), time.monotonic() + seconds
        while left:
            batch = [left.popleft() for _ in range(min(BATCH, len(left)))]
            try:
                self._take(batch, marks)
            except sqlite3.Error as error:
                raise SearchError(f"{self.path}: {error}") from error
            if time.monotonic() >= until:
                break
        return len(left)

    def search(self, query: Query, limit: int = 500) -> Found:
        """Every turn that `query` matches; nothing for one that asks for nothing."""
        if query.is_empty:
            return Found([])
        conditions, values = query.conditions()
        source = "turns"
        if query.words:
            source = "texts JOIN turns ON turns.id = texts.rowid"
        counted = self._ask(f"SELECT step, count(*) FROM {source} WHERE {conditions} GROUP BY step", *values)
        by_step = dict(sorted(counted))
        shown = f"snippet(texts, -1, '{START}', '{END}', '…', {SNIPPET})"
        if not query.words:
            shown = "(SELECT substr(said, 1, 200) FROM texts WHERE rowid = turns.id)"
        found = self._ask(
            f'SELECT episode, step, "index", role, illegal, reward, {shown} FROM {source} WHERE {conditions} '
            "ORDER BY turns.step, turns.id LIMIT ?",
            *values,
            limit,
        )
        hits = [
            Hit(rollout_id, at, turn, role, bool(ruled_out), reward, pieces(text or ""))
            for rollout_id, at, turn, role, ruled_out, reward, text in found
        ]
        return Found(hits, sum(by_step.values()), by_step)

    def _take(self, steps: list[int], marks: dict[int, str]) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            for step in steps:
                connection.execute(
                    "DELETE FROM texts WHERE rowid IN (SELECT id FROM turns WHERE step = ?)", (step,)
                )
                connection.execute("DELETE FROM turns WHERE step = ?", (step,))
                connection.execute("DELETE FROM read WHERE step = ?", (step,))
                if step in marks:
                    connection.execute(TAKE_TURNS, (step,))
                    connection.execute(TAKE_TEXTS, (step,))
                    connection.execute("INSERT INTO read VALUES (?, ?)", (step, marks[step]))
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _ask(self, query: str, *values: object) -> list[tuple]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise SearchError(f"{self.path}: {error}") from error


def pieces(marked: str) -> tuple[tuple[str, bool], ...]:
    """A snippet in pieces, and whether each was looked for."""
    found: list[tuple[str, bool]] = []
    for part in marked.split(START):
        hit, ended, rest = part.partition(END)
        found += [(hit, True), (rest, False)] if ended else [(part, False)]
    return tuple(piece for piece in found if piece[0])


def _opened(path: Path, folder: Path) -> sqlite3.Connection:
    """The index, made anew where it is of another format or damaged."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return _connected(path, folder)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            path.unlink()
            return _connected(path, folder)
    except (sqlite3.Error, OSError) as error:
        raise SearchError(f"{path}: the search index can't be made there: {error}") from error


def _connected(path: Path, folder: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path.absolute().as_uri(), uri=True, isolation_level=None)
    try:
        # what a power cut takes is made again
        connection.execute("PRAGMA synchronous = OFF")
        [(version,)] = connection.execute("PRAGMA user_version")
        if version != FORMAT:
            tables = "SELECT 1 FROM sqlite_master"
            if version or connection.execute(tables).fetchone():
                raise sqlite3.DatabaseError(f"format {version}")
            connection.executescript(f"BEGIN; {SCHEMA} COMMIT;")
        connection.execute("ATTACH ? AS run", (address(folder, "ro"),))
        connection.create_function("plain", 1, _plain, deterministic=True)
        connection.text_factory = lambda stored: stored.decode(errors="replace")
    except BaseException:
        connection.close()
        raise
    return connection


def _plain(text: bytes | None) -> str:
    """A text as it is indexed: valid, and without the marks and whatever else would end it early."""
    return (text or b"").decode(errors="replace").translate({0: " ", ord(START): " ", ord(END): " "})
