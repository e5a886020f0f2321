"""Search: what was said is found, filters hold, and the index follows the run."""

import sqlite3
from pathlib import Path

import pytest

from engine.reading import fulltext
from engine.reading.fulltext import FILE, Index, SearchError, pieces
from engine.reading.query import QueryError, parse
from engine.store import Store
from engine.types import Completion, GenerateResult, Rollout, Turn


def said(rollout_id: str, *texts: str, asked: str = "go", **rollout) -> GenerateResult:
    """An episode of two roles in turn."""
    turns = [
        Turn(
            ("First", "Second")[i % 2],
            i,
            [{"role": "system", "content": "You play."}, {"role": "user", "content": asked}],
            Completion(text, player=("policy", "random")[i % 2]),
            illegal=text.startswith("bad"),
        )
        for i, text in enumerate(texts)
    ]
    given = {"rewards": {"First": 1.0, "Second": -1.0}, "players": {"First": "policy", "Second": "random"}}
    return GenerateResult(Rollout(rollout_id, "nim", turns=turns, **{**given, **rollout}))


@pytest.fixture
def store(tmp_path: Path):
    with Store.create(tmp_path / "run") as made:
        made.record_step(1, 1, 0.5, {}, [said("0", "I leave a multiple of four", "I take two sticks")])
        made.record_step(
            2, 2, 0.25, {}, [said("1", "bad move", "Four is a multiple"), said("2", "taken: [2]", "Ölig")]
        )
        yield made


@pytest.fixture
def index(store: Store):
    opened = Index.open(store.folder, store.folder / "cache")
    opened.update()
    yield opened
    opened.close()


def hits(index: Index, query: str) -> list[tuple[str, int]]:
    return [(hit.rollout_id, hit.turn) for hit in index.search(parse(query)).hits]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("multiple", [("0", 0), ("1", 1)]),
        ("MULTIPLE four", [("0", 0), ("1", 1)]),
        ('"multiple of four"', [("0", 0)]),
        ("take", [("0", 1)]),
        ("take*", [("0", 1), ("2", 0)]),
        ('"multiple of fo"*', [("0", 0)]),
        ("multiple -leave", [("1", 1)]),
        ("olig", [("2", 1)]),
        ("[2]", [("2", 0)]),
        ("multiple role:second", [("1", 1)]),
        ("go step:1", [("0", 0), ("0", 1)]),
        ("go step:2-", [("1", 0), ("1", 1), ("2", 0), ("2", 1)]),
        ("go step:1-1 reward>0", [("0", 0)]),
        ("reward<=-1 step:2", [("1", 1), ("2", 1)]),
        ("illegal", [("1", 0)]),
        ('"illegal"', []),
        ("-go", []),
        ("player:random step:1", [("0", 1)]),
        ("type:nim illegal", [("1", 0)]),
        ("eval", []),
        ("training step:1", [("0", 0), ("0", 1)]),
        ("", []),
        ("?!", []),
        ("-leave", []),
    ],
)
def test_a_query_finds_what_it_asks_for(index: Index, query: str, found: list[tuple[str, int]]):
    assert hits(index, query) == found


def test_what_must_not_be_there_takes_from_what_filters_leave(index: Index):
    assert hits(index, "step:1 -leave") == [("0", 1)]


def test_a_role_of_one_of_several_tasks_goes_by_its_own_name(store: Store, index: Index):
    turn = Turn("nim/First", 0, [], Completion("scoped"))
    store.record_step(3, 3, 0.5, {}, [GenerateResult(Rollout("3", "nim", turns=[turn]))])
    index.update()
    assert hits(index, "role:first scoped") == hits(index, "role:nim/first scoped") == [("3", 0)]
    assert hits(index, "role:irst scoped") == []


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("step:x", "write step:12, step:10-20 or step:10-"),
        ("step:", "step: needs a value"),
        ("role:", "such as role:First"),
        ("reward>much", "reward>much compares with no number"),
    ],
)
def test_a_filter_without_a_sense_is_named(query: str, words: str):
    with pytest.raises(QueryError, match=words.replace("+", r"\+")):
        parse(f"sticks {query}")


@pytest.mark.parametrize(
    "query", ['"', '""', "-", "*", "a OR", "NEAR(", "said: x", "^", "a AND (b", "'; --", "\0", "a\0b"]
)
def test_no_words_are_an_error(index: Index, query: str):
    index.search(parse(query))


def test_the_snippet_marks_what_was_looked_for(index: Index):
    [hit] = index.search(parse("leave four")).hits
    assert hit.snippet == (("I ", False), ("leave", True), (" a multiple of ", False), ("four", True))
    assert pieces("\x02a\x03b\x02c") == (("a", True), ("b", False), ("c", False))


def test_steps_are_counted_though_few_are_shown(index: Index):
    found = index.search(parse("go"), limit=1)
    assert (len(found.hits), found.total, found.by_step) == (1, 6, {1: 2, 2: 4})


def test_rewards_and_signs_come_with_a_hit(index: Index):
    [hit] = index.search(parse("illegal")).hits
    assert (hit.step, hit.role, hit.illegal, hit.reward) == (2, "First", True, 1.0)
    assert hit.snippet == (("bad move", False),)


def test_an_update_takes_in_only_what_is_new(store: Store, index: Index):
    taken: list[list[int]] = []
    index._take = lambda steps, marks: taken.append(steps) or Index._take(index, steps, marks)
    index.update()
    store.record_step(3, 3, 0.5, {}, [said("3", "something new")])
    assert hits(index, "new") == []
    index.update()
    assert taken == [[3]]
    assert hits(index, "new") == [("3", 0)]


def test_what_was_played_again_after_going_back_takes_the_place_of_what_was(store: Store, index: Index):
    store.rewind(1)
    store.record_step(2, 2, 0.75, {}, [said("1", "quite another"), said("2", "game")])
    index.update()
    assert hits(index, "bad") == []
    assert hits(index, "another") == [("1", 0)]
    store.rewind(1)
    index.update()
    assert hits(index, "another") == []


def test_an_update_takes_its_time_in_slices(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fulltext, "BATCH", 1)
    index = Index.open(store.folder, store.folder / "cache")
    assert index.update(0.0) == 1
    assert hits(index, "leave") == [("0", 0)]
    assert hits(index, "taken") == []
    assert index.update(0.0) == 0
    assert hits(index, "taken") == [("2", 0)]
    index.close()


def test_hostile_texts_are_found_and_do_no_harm(store: Store, index: Index):
    texts = [
        "lone \ud800 surrogate",
        "nul \0 inside needle",
        "\x02mark\x03 forged",
        "\x1b]52;c;aGk=\x07 escape",
        "x" * 10**6,
    ]
    store.record_step(
        3, 3, 0.5, {}, [said("3", *texts, asked="asked \udfff oddly", rewards={"First": float("nan")})]
    )
    index.update()
    for word, turn in (("surrogate", 0), ("needle", 1), ("forged", 2), ("escape", 3)):
        [hit] = index.search(parse(word)).hits
        assert hit.turn == turn
        assert [text for text, found in hit.snippet if found] == [word]
        assert not any("\x02" in text or "\x03" in text for text, _ in hit.snippet)
    assert len(hits(index, "oddly")) == 5


def test_a_damaged_index_or_one_of_another_format_is_made_again(store: Store, index: Index):
    index.close()
    for damage in (b"no database at all" * 100, None):
        if damage is not None:
            (store.folder / FILE).write_bytes(damage)
        else:
            other = sqlite3.connect(store.folder / FILE)
            other.execute("PRAGMA user_version = 99")
            other.close()
        again = Index.open(store.folder, store.folder / "cache")
        assert again.update() == 0
        assert hits(again, "leave") == [("0", 0)]
        again.close()


def test_a_folder_that_cannot_be_written_to_has_its_index_in_the_cache(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store.close()
    monkeypatch.setattr("os.access", lambda *_: False)
    before = sorted(path.name for path in store.folder.iterdir())
    index = Index.open(store.folder, tmp_path / "cache")
    index.update()
    assert hits(index, "leave") == [("0", 0)]
    assert index.path.parent.parent == tmp_path / "cache"
    assert sorted(path.name for path in store.folder.iterdir()) == before
    index.close()


def test_a_place_where_no_index_can_be_is_named(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(SearchError, match="the search index can't be made there"):
        Index.open(store.folder, tmp_path / "file" / "cache")


def test_searching_never_changes_the_record(store: Store, index: Index):
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        index._connection.execute("DELETE FROM run.turns")
