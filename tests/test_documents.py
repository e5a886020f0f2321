"""Documents: a folder of text becomes passages; any text is a query, and none is a query language."""

from __future__ import annotations

import os
import random
import sqlite3
import sys
from collections import Counter
from pathlib import Path

import pytest

from engine import Documents
from engine.data import documents


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "more").mkdir()
    (tmp_path / "bees.txt").write_text("Bees make honey. A hive has one queen.\n\nDrones do not work.")
    (tmp_path / "more" / "tea.md").write_text("Tea is a plant. The café sells honey cake.")
    (tmp_path / "ants.rst").write_text("Ants carry leaves.")
    (tmp_path / "table.csv").write_text("honey,honey,honey")
    (tmp_path / ".hidden.txt").write_text("honey")
    return tmp_path


def test_every_text_file_becomes_passages_in_the_order_of_paths(folder):
    found = Documents(folder)
    assert [found.passage(i).title for i in range(len(found))] == ["ants.rst 1", "bees.txt 1", "more/tea.md 1"]
    assert found.passage(1).text == "Bees make honey. A hive has one queen. Drones do not work."


def test_a_passage_ends_with_a_sentence(folder):
    found = Documents(folder, words=9)
    assert [p.text for p in map(found.passage, range(1, 3))] == [
        "Bees make honey. A hive has one queen.",
        "Drones do not work.",
    ]


@pytest.mark.parametrize("words", [1, 3, 10, 50])
def test_no_word_is_lost_and_no_passage_too_long(tmp_path, words):
    rng = random.Random(words)
    text = " ".join("x" * rng.randint(1, 9) + rng.choice(["", "", "", ".", "?\n\n"]) for _ in range(500))
    (tmp_path / "a.txt").write_text(text)
    found = Documents(tmp_path, words=words)
    passages = [found.passage(i).text for i in range(len(found))]
    assert " ".join(passages).split() == text.split()
    assert all(1 <= len(passage.split()) <= words for passage in passages)


def test_a_text_without_spaces_is_cut_too(tmp_path):
    (tmp_path / "a.txt").write_text("語" * 10_000)
    found = Documents(tmp_path, words=20)
    assert "".join(found.passage(i).text for i in range(len(found))) == "語" * 10_000
    assert max(len(found.passage(i).text) for i in range(len(found))) <= 20 * documents.CHARACTERS


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        ("queen", ["bees.txt 1"]),
        ("QUEENS?", ["bees.txt 1"]),
        ("cafe", ["more/tea.md 1"]),
        ("ants", ["ants.rst 1"]),
        ("the queen of tea", ["more/tea.md 1", "bees.txt 1"]),
        ("zebra", []),
    ],
)
def test_words_are_found_in_other_forms(folder, query, titles):
    assert sorted(p.title for p in Documents(folder).search(query, 5)) == sorted(titles)


def test_of_equal_passages_the_earlier_comes_first(tmp_path):
    for name in "cab":
        (tmp_path / f"{name}.txt").write_text("The same words.")
    assert [p.title for p in Documents(tmp_path).search("same", 2)] == ["a.txt 1", "b.txt 1"]


@pytest.mark.parametrize(
    "query",
    [
        "", " ", '"', '"honey', "'", "honey AND", "NOT honey", "OR", "NEAR(honey queen, 2", "file:bees", "+", "\0",
        "text : honey", "{file text}: honey", "honey*", "^honey", "-honey", "(honey", "honey)", "; DROP TABLE x",
        "honey\0queen", "🐝", "🐝 honey", "\ud800", "_", "²", "ª", "ﬁ", "honey" * 300_000, "honey " * 200_000,
        "a b c d e f g h i j k l m n o p q r s t u v w x y z " * 10, "' OR 1=1 --", "?", "?1", ":a", "@a", "İ", "ß",
    ],
    ids=lambda query: ascii(query[:20]),
)  # fmt: skip
def test_any_text_is_a_query(folder, query):
    found = Documents(folder)
    for passage in found.search(query):
        assert passage == found.passage(passage.id)
    assert len(found) == 3


def test_an_operator_is_a_word(folder):
    """As a query language, the first would find what has no honey, and the second nothing."""
    found = Documents(folder)
    assert {p.title for p in found.search("NOT honey")} == {"bees.txt 1", "more/tea.md 1"}
    assert {p.title for p in found.search("text: queen")} == {"bees.txt 1"}


def test_random_queries_are_no_errors(folder):
    found, rng = Documents(folder), random.Random(0)
    for _ in range(2000):
        found.search(
            "".join(chr(rng.choice([rng.randrange(128), rng.randrange(sys.maxunicode)])) for _ in range(20))
        )


def test_passages_are_drawn_by_the_generator_given_alone(folder):
    found = Documents(folder)
    drawn = [found.sample(random.Random(i)).id for i in range(300)]
    assert drawn == [Documents(folder).sample(random.Random(i)).id for i in range(300)]
    assert min(Counter(drawn)[i] for i in range(3)) > 60


def test_a_passage_that_is_not_there_is_named(folder):
    with pytest.raises(KeyError, match=r"no passage 3: .* has passages 0 to 2"):
        Documents(folder).passage(3)


def test_links_out_of_the_folder_are_not_followed(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.txt").write_text("A secret.")
    (folder / "link.txt").symlink_to(outside / "secret.txt")
    (folder / "links").symlink_to(outside)
    (folder / "loop.txt").symlink_to(folder / "loop.txt")
    (folder / "gone.txt").symlink_to(folder / "nowhere.txt")
    os.mkfifo(folder / "pipe.txt")
    found = Documents(folder)
    assert len(found) == 3
    assert found.search("secret") == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"Fine.\nFine.\nna\xefve", "a.txt, line 3: byte 0xef isn't UTF-8; expected text in UTF-8"),
        ("Text.".encode("utf-16"), "a.txt: a binary file, or text in UTF-16; expected text in UTF-8"),
        (b"\x89PNG\0", "a.txt: a binary file"),
        (b"", "no text; expected files that end in .txt, .md, .rst, with words"),
        (b" \n\n ", "no text"),
    ],
)
def test_what_is_no_text_is_refused_by_name(tmp_path, data, said):
    (tmp_path / "a.txt").write_bytes(data)
    with pytest.raises(ValueError, match=said):
        Documents(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a file's name is text")
def test_a_files_name_may_be_any_bytes(tmp_path):
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\n[b]\x1b.txt")).write_text("Honey.")
    assert Documents(tmp_path).passage(0).title == "\ufffd [b]\x1b.txt 1"


def test_a_mark_at_the_beginning_is_no_text(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfHoney.")
    assert Documents(tmp_path).passage(0).text == "Honey."


def test_a_folder_that_is_none_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("Honey.")
    for path in (tmp_path / "gone", tmp_path / "a.txt"):
        with pytest.raises(ValueError, match=f"{path}: no such folder; expected one with files that end in .txt"):
            Documents(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty: no text"):
        Documents(tmp_path / "empty")


def test_too_much_text_is_refused_before_it_is_read(folder, monkeypatch):
    monkeypatch.setattr(documents, "MOST_FILES", 2)
    with pytest.raises(ValueError, match="too much text; up to 2 files and 100 MB"):
        Documents(folder)
    monkeypatch.setattr(documents, "MOST_FILES", 20)
    with (folder / "large.txt").open("wb") as file:
        file.truncate(300_000_000)
    with pytest.raises(ValueError, match="too much text"):
        Documents(folder)


def test_an_sqlite_without_full_text_search_is_named(folder, monkeypatch):
    class Plain(sqlite3.Connection):
        def execute(self, *_):
            raise sqlite3.OperationalError("no such module: fts5")

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **rest: connect(*args, factory=Plain, **rest))
    with pytest.raises(
        ValueError, match=r"can't search text \(no such module: fts5\): it has to be built with FTS5"
    ):
        Documents(folder)
