"""A run's record on disk: one SQLite file that everything shown can be rebuilt from.

A step is one transaction: a reader sees all of it or none, and `kill -9` at any moment loses at most the step in
flight. (A power cut may take those since the last checkpoint: the write-ahead log is forced to disk before one is
written, and not at each commit, which would cost a step tens of milliseconds.) One process writes to a run at a
time, any number read.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import IO
from urllib.parse import quote

from engine import rows
from engine.events import (
    CheckpointSaved,
    EditApplied,
    EvaluationFinished,
    Event,
    Notice,
    RunState,
    StateChanged,
    StepFinished,
)
from engine.reading import encounters, outlines
from engine.reading.outlines import Outline, outlined
from engine.rows import StoredEpisode
from engine.types import Credit, EngineError, GenerateResult, Turn

FORMAT = "1"
"""Changes whenever a run written before could not be read as it is."""

FILE = "run.sqlite"
LOCK = "run.lock"

SITTING = "person-"
"""How the ids begin of episodes in which a person plays: `person-3/0` is the third."""

SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE steps (step INTEGER PRIMARY KEY, version INTEGER, seconds REAL, metrics TEXT, skipped TEXT);
CREATE TABLE evaluations (step INTEGER PRIMARY KEY, metrics TEXT, is_best INTEGER);
CREATE TABLE edits (number INTEGER PRIMARY KEY, step INTEGER, target TEXT, before TEXT, after TEXT);
CREATE TABLE checkpoints (step INTEGER, path TEXT, reason TEXT);
CREATE TABLE notices (step INTEGER, text TEXT, severity TEXT);
{rows.TABLES}
"""


Standing = tuple[StateChanged | None, tuple[int, float] | None, int]
"""How a run ended, its last step and the seconds that it took, and how many edits there are."""


class StoreError(EngineError):
    """A run's record can't be made, opened, written or read: names the folder and what was wrong with it."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What is known of one step."""

    step: int
    version: int
    """The policy version it published."""
    seconds: float
    """How long it took to play and to learn, pauses left out."""
    metrics: dict[str, float]
    skipped: str = ""
    """Why nothing was learnt, where nothing was."""


class Store:
    """The record of the run in `folder`. Belongs to the thread that opened it."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, lock: IO[str] | None) -> None:
        self.folder = folder
        self._connection = connection
        self._lock = lock

    @classmethod
    def create(cls, folder: Path) -> Store:
        """A new record, in a folder that is made if need be. `StoreError` if it holds one already."""
        if (folder / FILE).exists():
            raise StoreError(f"{folder}: there is a run in this folder already")
        with _explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock = locked(folder)
            store = cls(folder, _connected(folder, "rwc"), lock)
            store._connection.execute("PRAGMA journal_mode = WAL")
        made = (("format", FORMAT), ("engine", installed_version("selfplay-tui")), ("created", str(time.time())))
        with store._transaction() as connection:
            for statement in SCHEMA.split(";"):
                connection.execute(statement)
            connection.executemany("INSERT INTO meta VALUES (?, ?)", made)
        return store

    @classmethod
    def open(cls, folder: Path, *, read_only: bool = False) -> Store:
        """An existing record. `StoreError` if there is none, it is damaged, of another format, or in use."""
        if not (folder / FILE).is_file():
            raise StoreError(f"{folder}: not a run: no {FILE} in it")
        with _explained(folder):
            lock = None if read_only else locked(folder)
            store = cls(folder, _connected(folder, "ro" if read_only else "rw"), lock)
        try:
            complete = store._read("SELECT 1 FROM sqlite_master WHERE name = 'meta'")
            found = store.meta("format") if complete else None
            if found != FORMAT:
                made = f"in run format {found}, this version reads format {FORMAT}" if found else "incomplete"
                raise StoreError(f"{folder}: the record {FILE} is {made}")
            if not read_only:
                store._add_columns()
        except StoreError:
            store.close()
            raise
        return store

    @property
    def writes(self) -> bool:
        """Whether this store has the run's lock."""
        return self._lock is not None and not self._lock.closed

    def standing(self) -> Standing:
        """Where the run stands: another as soon as anybody has gone on with it, or has changed it."""
        last = self.last_step()
        return self.state(), last and (last.step, last.seconds), len(self.edits())

    def take_up(self, standing: Standing) -> None:
        """Write from now on to what was only read so far.

        `StoreError` if another process has the run, or had it since that was its `standing`; then nothing changes.
        """
        writing = Store.open(self.folder)
        try:
            if writing.standing() != standing:
                raise StoreError(f"{self.folder}: another process went on with this run meanwhile: open it anew")
        except StoreError:
            writing.close()
            raise
        self._connection.close()
        self._connection, self._lock = writing._connection, writing._lock

    def close(self) -> None:
        """Ends this store; another process may then write to the run. Closing twice is fine."""
        self._connection.close()
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def record_step(
        self,
        step: int,
        version: int,
        seconds: float,
        metrics: dict[str, float],
        results: list[GenerateResult] | rows.Prepared,
        skipped: str = "",
        sittings: Sequence[GenerateResult] = (),
    ) -> None:
        """One step and the episodes it learnt from, credit included, in one transaction.

        Among them are `sittings` that are in the record already, without credit: they are now of this step.
        """
        with self._transaction() as connection:
            row = (step, version, seconds, rows.to_json(metrics), skipped)
            connection.execute("INSERT INTO steps VALUES (?, ?, ?, ?, ?)", row)
            rows.insert(connection, results, step, evaluation=False)
            for sitting in sittings:
                _delete_episodes(connection, "evaluation IS NULL AND id = ?", sitting.rollout.id)
                _delete_episodes(connection, "evaluation IS NULL AND id LIKE ? || '.%'", sitting.rollout.id)
            rows.insert(connection, sittings, step, evaluation=None)

    def record_sitting(self, step: int, result: GenerateResult) -> None:
        """An episode in which a person played, after that step."""
        with self._transaction() as connection:
            rows.insert(connection, [result], step, evaluation=None)

    def record_evaluation(self, event: EvaluationFinished, results: list[GenerateResult] | rows.Prepared) -> None:
        """An evaluation and its episodes. A second one after the same step takes the first one's place."""
        with self._transaction() as connection:
            _delete_episodes(connection, "step = ? AND evaluation", event.step)
            row = (event.step, rows.to_json(event.metrics), event.is_best)
            connection.execute("INSERT OR REPLACE INTO evaluations VALUES (?, ?, ?)", row)
            rows.insert(connection, results, event.step, evaluation=True)

    def record_edit(self, event: EditApplied) -> None:
        texts = (rows.to_text(event.target), rows.to_text(event.before), rows.to_text(event.after))
        with self._transaction() as connection:
            connection.execute("INSERT INTO edits VALUES (?, ?, ?, ?, ?)", (event.number, event.step, *texts))

    def record_checkpoint(self, event: CheckpointSaved) -> None:
        with self._transaction() as connection:
            row = (event.step, event.path, event.reason)
            connection.execute("INSERT INTO checkpoints VALUES (?, ?, ?)", row)

    def record_notice(self, step: int, event: Notice) -> None:
        with self._transaction() as connection:
            row = (step, rows.to_text(event.text), event.severity)
            connection.execute("INSERT INTO notices VALUES (?, ?, ?)", row)

    def record_start(self) -> None:
        """A sitting begins: how the one before ended is no longer how the run ended, whatever ends this one."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM meta WHERE key IN ('state', 'reason')")

    def record_state(self, state: RunState | str, reason: str = "") -> None:
        """How a sitting ended, and why, until the next begins; so that a list of runs can tell."""
        with self._transaction() as connection:
            values = (("state", RunState(state).value), ("reason", rows.to_text(reason)))
            connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values)

    def sync(self) -> None:
        """Have what has been recorded outlast a power cut. On any thread."""
        log = self.folder / f"{FILE}-wal"
        with _explained(self.folder):
            if log.exists():
                with log.open("rb") as opened:
                    os.fsync(opened.fileno())

    def rewind(self, step: int) -> None:
        """Forgets what came after `step`: a run that was killed goes on from its last checkpoint.

        Edits stay: what a person decided is not undone by going back. They are in force from there now. So do
        episodes in which a person played; nothing has been learnt from those of later steps any more.
        """
        with self._transaction() as connection:
            connection.execute("UPDATE edits SET step = ? WHERE step > ?", (max(step, 0), max(step, 0)))
            _delete_episodes(connection, "step > ? AND evaluation IS NOT NULL", step)
            later = "SELECT id FROM episodes WHERE step > ?"
            forgotten = "credit = NULL, learnt = NULL, ratios = NULL"
            connection.execute(f"UPDATE turns SET {forgotten} WHERE episode IN ({later})", (step,))
            connection.execute("UPDATE episodes SET step = ? WHERE step > ?", (max(step, 0), step))
            for table in ("steps", "evaluations", "checkpoints", "notices"):
                connection.execute(f"DELETE FROM {table} WHERE step > ?", (step,))

    def begin_with(self, other: Path, step: int, origin: str) -> None:
        """Take over what another run's record tells of its steps and evaluations to `step`, not its episodes.

        `origin` says in the record what this run came from.
        """
        with _explained(self.folder):
            self._connection.execute(
                "ATTACH ? AS origin", (f"file:{quote(str((other / FILE).absolute()))}?mode=ro",)
            )
        try:
            with self._transaction() as connection:
                for table in ("steps", "evaluations"):
                    copied = f"INSERT INTO {table} SELECT * FROM origin.{table} WHERE step <= ?"
                    connection.execute(copied, (step,))
                connection.execute("INSERT INTO meta VALUES ('origin', ?)", (rows.to_text(origin),))
        finally:
            self._connection.execute("DETACH origin")

    def steps(self) -> list[StepRecord]:
        return [_step(row) for row in self._read("SELECT * FROM steps ORDER BY step")]

    def last_step(self) -> StepRecord | None:
        found = self._read("SELECT * FROM steps ORDER BY step DESC LIMIT 1")
        return _step(found[0]) if found else None

    def evaluations(self, *, after: int = -1, limit: int = -1) -> list[EvaluationFinished]:
        """Those of later steps than `after`, at most `limit` if it isn't negative: a page of a long run."""
        found = self._read("SELECT * FROM evaluations WHERE step > ? ORDER BY step LIMIT ?", after, limit)
        return [_evaluation(row) for row in found]

    def landmarks(self) -> tuple[EvaluationFinished | None, EvaluationFinished | None, EvaluationFinished | None]:
        """The first evaluation, the latest, and the latest that was the best so far: without reading the others."""
        wanted = ("ORDER BY step", "ORDER BY step DESC", "WHERE is_best ORDER BY step DESC")
        found = [self._read(f"SELECT * FROM evaluations {which} LIMIT 1") for which in wanted]
        first, last, best = (_evaluation(rows[0]) if rows else None for rows in found)
        return first, last, best

    def edits(self) -> list[EditApplied]:
        found = self._read("SELECT number, step, target, before, after FROM edits ORDER BY number")
        return [
            EditApplied(number, step, *(rows.from_text(text) for text in texts)) for number, step, *texts in found
        ]

    def checkpoints(self) -> list[CheckpointSaved]:
        found = self._read("SELECT step, path, reason FROM checkpoints ORDER BY rowid")
        return [CheckpointSaved(*row) for row in found]

    def notices(self) -> list[tuple[int, Notice]]:
        """What was noted, each with the step after which it was."""
        found = self._read("SELECT step, text, severity FROM notices ORDER BY rowid")
        return [(step, Notice(rows.from_text(text), severity)) for step, text, severity in found]

    def state(self) -> StateChanged | None:
        """How the run ended; None if it goes on, or was killed."""
        state = self.meta("state")
        return None if state is None else StateChanged(RunState(state), self.meta("reason") or "")

    def seconds(self) -> float:
        """How long all steps together took, pauses left out."""
        return self._read("SELECT total(seconds) AS seconds FROM steps")[0]["seconds"]

    def history(self) -> list[Event]:
        """The facts so far, as a watcher would have heard them."""
        told: list[tuple[int, Event]] = [(s.step, StepFinished(s.step, s.metrics, s.skipped)) for s in self.steps()]
        told += [(event.step, event) for event in self.evaluations()]
        told += [(event.step, event) for event in self.checkpoints()]
        told += [(event.step, event) for event in self.edits()]
        told += self.notices()
        return [event for _, event in sorted(told, key=lambda entry: entry[0])]

    def episodes(
        self, *, step: int | None = None, evaluation: bool | None = None, parent: str | None = None
    ) -> list[StoredEpisode]:
        """Episodes without their turns, in the order they were recorded; those asked for, or all.

        Those in which a person played are neither of an evaluation nor not.
        """
        wanted = {"step": step, "evaluation": evaluation, "parent": parent}
        asked = {column: value for column, value in wanted.items() if value is not None}
        condition = " AND ".join(f"{column} = ?" for column in asked) or "1"
        query = f"SELECT * FROM episodes WHERE {condition} ORDER BY rowid"
        return [rows.episode(row) for row in self._read(query, *asked.values())]

    def sittings(self) -> list[StoredEpisode]:
        """The episodes in which a person played."""
        found = self._read("SELECT * FROM episodes WHERE evaluation IS NULL ORDER BY rowid")
        return [rows.episode(row) for row in found]

    def last_sitting(self) -> int:
        """The number of the last recorded episode in which a person played: 3 for `person-3/0`. 0 without any."""
        numbers = f"CAST(substr(id, {len(SITTING) + 1}) AS INTEGER)"
        found = self._read(f"SELECT max({numbers}) AS last FROM episodes WHERE evaluation IS NULL")
        return found[0]["last"] or 0

    def outlines(self, step: int) -> list[Outline]:
        """A step's episodes, its evaluation's among them, with what was said but no prompts or tokens."""
        return outlined(self.episodes(step=step), self._read(outlines.TURNS, step))

    def encounters(self, *, after: int = 0, limit: int = 512) -> encounters.Page:
        """Who met whom in the next `limit` scored episodes after that place of the record."""
        return encounters.page(self._read(encounters.QUERY, after, limit), after)

    def met(self, step: int) -> list[encounters.Encounter]:
        """Who met whom in the scored episodes of a step."""
        return encounters.page(self._read(encounters.OF_STEP, step), 0).met

    def step_marks(self) -> dict[int, str]:
        """Every step that has episodes; its mark changes whenever these are no longer the same."""
        return {row["step"]: row["mark"] for row in self._read(outlines.MARKS)}

    def episode(self, rollout_id: str) -> StoredEpisode | None:
        """One episode without its turns; None if there is none of that id."""
        found = self._read("SELECT * FROM episodes WHERE id = ?", rollout_id)
        return rows.episode(found[0]) if found else None

    def credits(self, step: int) -> list[tuple[str, Credit]]:
        """The credit of each turn that a step learnt from, with its episode, in the order it was given in."""
        query = """
            SELECT turns.episode, credit FROM episodes JOIN turns ON turns.episode = episodes.id
            WHERE step = ? AND evaluation IS NOT 1 AND credit IS NOT NULL ORDER BY episodes.rowid, "index"
        """
        return [(row["episode"], Credit(**json.loads(row["credit"]))) for row in self._read(query, step)]

    def turns(self, rollout_id: str) -> list[Turn]:
        """What was said in one episode: prompts, exact tokens, log-probabilities, credit."""
        query = 'SELECT * FROM turns WHERE episode = ? ORDER BY "index"'
        return [rows.turn(row) for row in self._read(query, rollout_id)]

    def meta(self, key: str) -> str | None:
        """`"format"`, `"engine"` (the version that made the run), `"created"` (seconds since 1970), …"""
        found = self._read("SELECT value FROM meta WHERE key = ?", key)
        return rows.from_text(found[0]["value"]) if found else None

    def _add_columns(self) -> None:
        """What has been added to the schema since the run was made."""
        for table, column, kind in rows.ADDED:
            if not self._read("SELECT 1 FROM pragma_table_info(?) WHERE name = ?", table, column):
                with self._transaction() as connection:
                    connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")

    def _read(self, query: str, *values: object) -> list[sqlite3.Row]:
        with _explained(self.folder):
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with _explained(self.folder):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")


def in_use(folder: Path) -> bool:
    """Whether some process is writing to the run at this moment."""
    try:
        with open(folder / LOCK) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def locked(folder: Path) -> IO[str]:
    """The run's lock, held until it is closed or the process ends in whatever way.

    `StoreError` if another process has it.
    """
    lock = open(folder / LOCK, "a+")  # noqa: SIM115 (held for as long as the store is)
    for _ in range(5):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)  # `in_use` holds it for an instant
            continue
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        return lock
    lock.seek(0)
    holder = lock.read().strip()
    lock.close()
    raise StoreError(f"{folder}: process {holder} is running this run")


def _connected(folder: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(address(folder, mode), uri=True, isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def address(folder: Path, mode: str) -> str:
    """The record as SQLite opens it.

    To read beside a writer SQLite puts two files of its own there. Where it may not, and there are none, nobody
    writes either: then the record is read as it lies.
    """
    file = (folder / FILE).absolute()
    sealed = mode == "ro" and not os.access(folder, os.W_OK) and not Path(f"{file}-wal").exists()
    return f"file:{quote(str(file))}?mode={mode}" + ("&immutable=1" if sealed else "")


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        full = "disk is full" in str(error)
        hint = (
            "make room there; what was recorded before is safe" if full else "is the folder readable and writable?"
        )
        raise StoreError(f"{folder}: {error}; {hint}") from error
    except sqlite3.IntegrityError as error:
        raise StoreError(f"{folder}: recorded twice: {error}") from error
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{folder}: the record {FILE} is damaged: {error}") from error
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror or error}") from error


def _step(row: sqlite3.Row) -> StepRecord:
    return StepRecord(row["step"], row["version"], row["seconds"], json.loads(row["metrics"]), row["skipped"])


def _evaluation(row: sqlite3.Row) -> EvaluationFinished:
    return EvaluationFinished(row["step"], json.loads(row["metrics"]), bool(row["is_best"]))


def _delete_episodes(connection: sqlite3.Connection, condition: str, value: int | str) -> None:
    doomed = f"SELECT id FROM episodes WHERE {condition}"
    connection.execute(f"DELETE FROM turns WHERE episode IN ({doomed})", (value,))
    connection.execute(f"DELETE FROM episodes WHERE {condition}", (value,))
