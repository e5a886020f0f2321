"""Documents: a folder of text, cut into passages that can be searched, drawn and read.

What tasks are grounded in that must not live on what a model remembers: a proposer reads a passage, a solver
searches for one. Passages lie in an SQLite table in memory, ranked by BM25 (FTS5). Nothing is fetched or written.

A query comes from a model. It is never read as a query language: its words are quoted, one by one, and nothing else
of it reaches SQLite.
"""

from __future__ import annotations

import os
import random
import re
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

SUFFIXES = (".txt", ".md", ".rst")
"""Files that are read; others are passed over."""
MOST_BYTES = 100_000_000
"""Of all files of a folder together: they are kept in memory, in passages and in their index."""
MOST_FILES = 20_000
MOST_TERMS = 16
"""Different words of a query that are looked for: its first ones. In 20 MB of text so many of the most frequent
take some 0.1 s."""
LONGEST_QUERY = 4_000
"""Characters of a query that are read."""
CHARACTERS = 10
"""A passage of n words has at most n times so many characters: a script without spaces has no words to count."""

PASSAGE = "rowid, file || ' ' || number, text"
"""The columns of a `Passage`."""
SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n\s*\n")
TERM = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Passage:
    """Some sentences of a file."""

    id: int
    """From 0, in the order of files and sentences."""
    title: str
    """The file, as seen from the folder, and the passage's number in it: `bees.txt 2`."""
    text: str


class Documents:
    """The passages of every .txt, .md and .rst file (UTF-8) in a folder and the folders in it.

    `words`: the most a passage has. It ends with a sentence, unless one sentence alone is longer. Hidden files and
    folders are passed over; links that lead out of the folder aren't followed.

    Raises `ValueError` that names the file, or the folder, and what was expected: where there is no such folder, no
    text in it or too much, or a file that can't be read as UTF-8 text.
    """

    def __init__(self, folder: Path | str, *, words: int = 200) -> None:
        if words < 1:
            raise ValueError(f"a passage has at least 1 word, not {words}")
        self.folder = Path(folder).expanduser()
        # Read only, once it is filled: whichever thread asks sees the same.
        self._table = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            self._table.execute(
                "CREATE VIRTUAL TABLE passages "
                "USING fts5(file, number UNINDEXED, text, tokenize = 'porter unicode61')"
            )
        except sqlite3.OperationalError as error:
            raise ValueError(
                f"SQLite {sqlite3.sqlite_version} of this Python can't search text ({error}): it has to be built "
                "with FTS5, as those of python.org, Debian, Homebrew and uv are"
            ) from error
        numbered = enumerate(_passages_of(self.folder, words))
        self._table.executemany(
            "INSERT INTO passages(rowid, file, number, text) VALUES (?, ?, ?, ?)",
            ((id, *passage) for id, passage in numbered),
        )
        [(self._count,)] = self._table.execute("SELECT count(*) FROM passages")
        if not self._count:
            raise ValueError(
                f"{self.folder}: no text; expected files that end in {', '.join(SUFFIXES)}, with words"
            )

    def __len__(self) -> int:
        return self._count

    def passage(self, id: int) -> Passage:
        """Raises `KeyError` where there is none of that number."""
        for row in self._table.execute(f"SELECT {PASSAGE} FROM passages WHERE rowid = ?", (id,)):
            return Passage(*row)
        raise KeyError(f"no passage {id}: {self.folder} has passages 0 to {self._count - 1}")

    def sample(self, rng: random.Random) -> Passage:
        """A passage, all equally likely."""
        return self.passage(rng.randrange(self._count))

    def search(self, query: str, k: int = 3) -> list[Passage]:
        """The `k` passages that fit a query's words best, by BM25; of equal ones the earlier.

        Any text is a query, and none is an error. A passage needs to have one of the words, or another form of it
        ("bee" finds "bees"), in its text or its file's name; where none has, nothing is found. Of a script without
        spaces only whole runs of characters are found.
        """
        terms = dict.fromkeys(term.lower() for term in TERM.findall(query[:LONGEST_QUERY]))
        if not terms or k < 1:
            return []
        match = " OR ".join(f'"{term}"' for term in list(terms)[:MOST_TERMS])
        rows = self._table.execute(
            f"SELECT {PASSAGE} FROM passages WHERE passages MATCH ? ORDER BY bm25(passages), rowid LIMIT ?",
            (match, k),
        )
        return [Passage(*row) for row in rows]


def _passages_of(folder: Path, words: int) -> Iterator[tuple[str, int, str]]:
    """(file, number in it, text) of every passage of a folder's files, in the order of their paths."""
    for path in _files(folder):
        name = os.fsencode(path.relative_to(folder).as_posix()).decode(errors="replace")  # any bytes
        name = " ".join(name.split())
        for number, text in enumerate(cut(_read(path), words), 1):
            yield name, number, text


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder; expected one with files that end in {', '.join(SUFFIXES)}")
    inside, found, size = Path(os.path.realpath(folder)), [], 0
    for place, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            if name.startswith(".") or path.suffix.lower() not in SUFFIXES:
                continue
            if not Path(os.path.realpath(path)).is_relative_to(inside) or not path.is_file():
                continue
            size += path.stat().st_size
            found.append(path)
            if size > MOST_BYTES or len(found) > MOST_FILES:
                raise ValueError(
                    f"{folder}: too much text; up to {MOST_FILES:,} files and {MOST_BYTES // 1_000_000} MB can be "
                    "kept in memory"
                )
    return sorted(found, key=lambda path: path.relative_to(folder).as_posix())


def _read(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        _refuse(error)
    if b"\0" in data:
        raise ValueError(f"{path}: a binary file, or text in UTF-16; expected text in UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        raise ValueError(f"{path}, line {line}: byte 0x{byte:02x} isn't UTF-8; expected text in UTF-8") from error


def _refuse(error: OSError) -> NoReturn:
    raise ValueError(f"{error.filename}: can't be read ({error.strerror})") from error


def cut(text: str, words: int) -> Iterator[str]:
    """A text as passages of whole sentences, up to `words` words each; white space becomes single spaces."""
    longest = words * CHARACTERS
    return _packed(_pieces(text, words, longest), words, longest)


def _pieces(text: str, words: int, longest: int) -> Iterator[str]:
    """Sentences; of one that is too long for a passage, as much at a time as fits."""
    for sentence in SENTENCE.split(text):
        parts = sentence.split()
        if len(parts) <= words and len(whole := " ".join(parts)) <= longest:
            yield whole
        else:
            chunks = (part[i : i + longest] for part in parts for i in range(0, len(part), longest))
            yield from _packed(chunks, words, longest)


def _packed(pieces: Iterable[str], words: int, longest: int) -> Iterator[str]:
    """Pieces side by side, as many as fit."""
    held: list[str] = []
    held_words = held_characters = 0
    for piece in pieces:
        count = piece.count(" ") + 1
        if held and (held_words + count > words or held_characters + len(piece) > longest):
            yield " ".join(held)
            held, held_words, held_characters = [], 0, 0
        if piece:
            held.append(piece)
            held_words, held_characters = held_words + count, held_characters + len(piece) + 1
    if held:
        yield " ".join(held)
