"""What a replay is made of, without a screen: track, feed, pins, figures, the thread that reads."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from rich.style import Style

from engine.ratings import Rating, bradley_terry
from engine.reading.encounters import Encounter
from engine.reading.fulltext import Found, Hit
from engine.reading.highlights import Highlight, Kind
from engine.reading.query import parse
from engine.store import Store, StoreError
from tests.tui.hostile import CHOSEN, random_strings
from tests.tui.played import UPSET, add_step, evaluate, record
from tui.league.standings import Player, Standings
from tui.replay import feed, figures
from tui.replay.desk import Desk, collected_later
from tui.replay.pins import NOTE, Pin, PinError, Pins
from tui.replay.record import Record, read_into, view
from tui.replay.strength import Strength
from tui.replay.track import Track, lines, marks
from tui.screens.search import course, paint, summary
from tui.state import Store as State
from tui.text import width
from tui.theme import DUSK
from tui.widgets.marked import marked
from tui.widgets.painted import Line


def told(shown: list[Line]) -> str:
    return "\n".join("".join(text for text, _ in line) for line in shown)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return record(tmp_path / "nim-7")


# The track


def test_steps_and_cells_of_a_track_lead_to_each_other() -> None:
    track = Track(10, 110)
    assert [track.cell(step, 101) for step in (10, 60, 110)] == [0, 50, 100]
    assert all(track.cell(track.step(cell, 37), 37) == cell for cell in range(37))
    assert track.step(-5, 37) == 10
    assert track.step(500, 37) == 110
    assert Track(3, 3).cell(3, 20) == 0


def test_a_track_shows_the_knob_and_the_marks_in_as_many_cells_as_it_has() -> None:
    found = marks([0, 5, 10], [5], [(2, "auto"), (3, "manual"), (5, "best"), (10, "best")], [7], [0])
    bar, row = told(lines(Track(0, 10, found), 4, 11, DUSK)).split("\n")
    assert bar == "━━━━●┄┄┄┄┄┄"
    assert row == "⚑  ◆ ✎ ▴  ★"


# The feed


def test_pins_come_first_and_say_why_they_are_highlights_too() -> None:
    upset = Highlight(Kind.UPSET, 0.9, 8, "57", "First got −1.00", "First")
    drift = Highlight(Kind.HACK, 1.2, 40, "", "steps 0 to 40")
    entries = feed.entries([drift, upset], {"99": Pin(12), "57": Pin(8)})
    assert [entry.sign for entry in entries] == [feed.PIN, feed.PIN, "!", "⇅"]
    assert [(entry.name, entry.step, entry.rollout_id) for entry in entries] == [
        ("upset", 8, "57"),
        ("pinned", 12, "99"),
        ("reward hack?", 40, ""),
        ("upset", 8, "57"),
    ]


def test_a_note_says_more_than_what_was_found() -> None:
    upset = Highlight(Kind.UPSET, 0.9, 8, "57", "First got −1.00", "First")
    told = [entry.words for entry in feed.entries([upset], {"57": Pin(8, "gave up too early"), "99": Pin(9)})]
    assert told == ["gave up too early", "", "First got −1.00"]


def test_every_kind_has_a_sign_and_a_name_of_its_own() -> None:
    assert set(feed.SIGNS) == set(feed.NAMES) == set(Kind)
    assert len({feed.PIN, *feed.SIGNS.values()}) == len(Kind) + 1


@pytest.mark.parametrize("text", [*CHOSEN, *random_strings(60, 7)])
@pytest.mark.parametrize("cells", [34, 78])
def test_hostile_texts_are_shown_plain_and_in_the_cells_there_are(text: str, cells: int) -> None:
    state = State(lambda _: "")
    entry = feed.Entry("!", "failed", 3, text, text)
    hit = Hit(text, 3, 2, text, True, -1.0, ((text, False), (text, True), (text, False)))
    for line in [*feed.paint(entry, cells, DUSK, True), *paint(hit, state, cells, DUSK, False)]:
        shown = told([line])
        assert width(shown) <= cells
        assert shown.isprintable() or not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in shown)
    assert width(told([summary(Found([]), 0, text, cells, DUSK)])) <= cells


# Pins


def test_pins_are_kept_and_taken_away(tmp_path: Path) -> None:
    pins = Pins(tmp_path, tmp_path / "home")
    pins.load()
    assert pins.marked == {}
    assert pins.toggle("57", 8)
    assert pins.toggle("eval-10/1", 10)
    again = Pins(tmp_path, tmp_path / "home")
    again.load()
    assert again.marked == {"57": Pin(8), "eval-10/1": Pin(10)}
    assert not again.toggle("57", 8)
    assert json.loads((tmp_path / "pins.json").read_text()) == {"pins": [{"episode": "eval-10/1", "step": 10}]}


def test_an_episode_played_again_in_another_step_is_pinned_there(tmp_path: Path) -> None:
    pins = Pins(tmp_path, tmp_path)
    pins.toggle("57", 8)
    assert pins.toggle("57", 9)
    assert pins.marked == {"57": Pin(9)}
    assert (pins.of("57", 8), pins.of("57", 9)) == (None, Pin(9))


def test_a_note_is_kept_changed_and_taken_away_and_the_pin_stays(tmp_path: Path) -> None:
    pins = Pins(tmp_path, tmp_path)
    pins.annotate("57", 8, "  gave up\ud800 too early ")
    again = Pins(tmp_path, tmp_path)
    again.load()
    assert again.marked == {"57": Pin(8, "gave up\ud800 too early")}
    again.annotate("57", 8, "")
    assert json.loads((tmp_path / "pins.json").read_text()) == {"pins": [{"episode": "57", "step": 8}]}


def test_a_pin_that_is_taken_away_comes_back_with_its_note(tmp_path: Path) -> None:
    pins = Pins(tmp_path, tmp_path)
    pins.annotate("57", 8, "gave up too early")
    assert not pins.toggle("57", 8)
    assert pins.toggle("57", 8)
    assert pins.marked == {"57": Pin(8, "gave up too early")}
    pins.toggle("57", 8)
    pins.toggle("57", 9)  # another episode of that id
    assert pins.marked == {"57": Pin(9)}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("early", ["9", "57"]), ("EARLY cafe", ["57"]), ("ear*", ["9", "57"]), ("ear", []), ("early -gave", ["9"]),
        ('"too early"', ["57"]), ("-gave", []), ("early step:8", []), ("", []),
    ],
)  # fmt: skip
def test_notes_are_found_by_what_is_in_them(tmp_path: Path, query: str, found: list[str]) -> None:
    pins = Pins(tmp_path, tmp_path)
    pins.annotate("57", 8, "Gave up too early; see Café")
    pins.annotate("9", 3, "early on")
    pins.toggle("1", 1)
    assert [hit.rollout_id for hit in pins.found(parse(query))] == found


def test_pins_of_a_folder_that_cannot_be_written_to_are_kept_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    pins = Pins(tmp_path / "run", tmp_path / "home")
    pins.toggle("1", 2)
    assert pins.file.is_relative_to(tmp_path / "home")
    other = Pins(tmp_path / "elsewhere" / "run", tmp_path / "home")
    assert other.file != pins.file


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pins": [{"step": 1}]}', '{"pins": 7}', '"pins"'])
def test_a_file_that_holds_no_pins_is_named_and_set_aside(tmp_path: Path, content: str) -> None:
    (tmp_path / "pins.json").write_text(content)
    pins = Pins(tmp_path, tmp_path)
    with pytest.raises(PinError, match=r"holds no pins; it is kept as pins\.damaged"):
        pins.load()
    pins.toggle("1", 2)
    assert (tmp_path / "pins.damaged").read_text() == content
    assert json.loads((tmp_path / "pins.json").read_text())["pins"]


def test_a_pin_that_cannot_be_kept_says_so_and_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    pins = Pins(tmp_path, tmp_path)
    pins.file = tmp_path / "file" / "pins.json"
    with pytest.raises(PinError, match="the pin is not kept"):
        pins.toggle("1", 2)
    assert pins.marked == {}


# The record


def test_steps_are_moved_by_and_end_at_the_ends(folder: Path) -> None:
    facts = Record(folder).facts()
    assert (facts.steps[0], facts.last) == (0, 12)
    assert [facts.moved(5, by) for by in (1, -1, -10, 99)] == [6, 4, 0, 12]
    assert facts.stops() == [0, 5, 10]
    assert [facts.next_stop(step, True) for step in (0, 5, 10)] == [5, 10, 12]
    assert [facts.next_stop(step, False) for step in (12, 10, 3, 0)] == [10, 5, 0, 0]
    assert facts.nearest(7.4) == 7
    found = facts.evaluated(9)
    assert found is not None
    assert found.step == 0


def test_what_is_interesting_is_found_a_slice_at_a_time_and_only_once(folder: Path) -> None:
    reader = Record(folder)
    facts = reader.facts()
    _, left = reader.look_through(facts, 0.0)
    assert left == 12
    found, left = reader.look_through(facts, 60.0)
    assert left == 0
    assert (found[0].kind, found[0].rollout_id) == (Kind.UPSET, UPSET)
    with Store.open(folder) as store:
        add_step(store, 13)
    assert reader.grown(facts)
    looked: list[int] = []
    outlines = reader._store.outlines
    reader._store.outlines = lambda step: looked.append(step) or outlines(step)  # type: ignore[method-assign]
    reader.look_through(reader.facts(), 60.0)
    assert looked == [13]


def test_what_the_run_went_back_on_is_forgotten(folder: Path) -> None:
    reader = Record(folder)
    reader.look_through(reader.facts(), 60.0)
    with Store.open(folder) as store:
        store.rewind(7)
    found, _ = reader.look_through(reader.facts(), 60.0)
    assert max(one.step for one in found) <= 7


def strength(folder: Path) -> Strength:
    made = Strength(folder)
    with Store.open(folder, read_only=True) as store:
        assert made.take_in(store.step_marks(), 60.0) == 0
    return made


def test_ratings_are_those_of_what_was_played_by_then_the_newest_policy_apart(folder: Path) -> None:
    with Store.open(folder, read_only=True) as store:
        games = [
            (f"policy {stored.step}", "random", (stored.rollout.rewards["First"] + 1) / 2)
            for stored in store.episodes(evaluation=True)
        ]
    made = strength(folder)
    for step, known in ((0, games[:4]), (9, games[:4]), (10, games), (12, games)):
        found = {player.label: rating.value for player, rating in made.at(step)["nim"].items()}
        assert found == pytest.approx({name: rating.value for name, rating in bradley_terry(known).items()})


def test_a_policy_of_long_ago_is_cut_into_stretches_and_the_newest_step_is_none() -> None:
    made = Standings()
    made.add(Encounter(f"{step}", step, True, "nim", {"policy": 1.0, "random": -1.0}) for step in range(0, 130, 10))
    labels = [player.label for player in made.ratings("nim", 119, bands=4) if player.learns]
    assert labels == ["policy 0–30", "policy 40–60", "policy 70–100", "policy 110"]
    assert [player.label for player in made.ratings("nim", 0, bands=4)] == ["policy 0", "random"]
    assert made.ratings("nim", -1) == {}


def test_ratings_forget_what_the_run_went_back_on_and_take_in_what_came_instead(folder: Path) -> None:
    made = strength(folder)
    with Store.open(folder) as store:
        store.rewind(9)
        made.take_in(store.step_marks(), 60.0)
        assert [player.label for player in made.at(12)["nim"]] == ["policy 0", "random"]
        evaluate(store, 11)
        made.take_in(store.step_marks(), 60.0)
    assert [player.label for player in made.at(12)["nim"]] == ["policy 0", "policy 11", "random"]


def test_ratings_are_read_bit_by_bit(folder: Path) -> None:
    made = Strength(folder)
    with Store.open(folder, read_only=True) as store:
        marks = store.step_marks()
    assert made.take_in(marks, 0.0) == len(marks) - 1
    assert made.take_in(marks, 60.0) == 0


def test_an_episode_is_shown_as_if_it_had_just_ended(folder: Path) -> None:
    reader = Record(folder)
    outline = reader.page(8)[1]
    state = State(lambda _: "", lambda: 0.0)
    shown = read_into(state, reader.episode(outline), None)
    row = view(outline)
    assert (shown.id, shown.rewards, shown.live, row.live) == (UPSET, row.rewards, False, False)
    assert [(turn.role, turn.text) for turn in shown.turns] == [(turn.role, turn.text) for turn in row.turns]
    assert shown.turns[0].credit is not None


def test_figures_tell_the_step_beside_the_last_one(folder: Path) -> None:
    facts = Record(folder).facts()
    ratings = {"nim": {Player("policy", 0, 0): Rating(1090.0, 900.0, 1280.0)}}
    shown = told(figures.lines(facts, 5, ratings, 40, DUSK))
    for words in ("edit 1, role First", "evaluation 0", "policy 0 ", "1090  900 … 1280", "0.250    0.180", "● Fi"):
        assert words in shown
    assert told(figures.lines(facts, 99, {}, 40, DUSK)).strip().startswith("evaluation 10")
    empty = replace(facts, evaluations={}, records={}, edits=[], checkpoints=[], notices=[])
    assert "Nothing is recorded" in told(figures.lines(empty, 5, {}, 40, DUSK))


def test_no_line_of_the_figures_is_wider_than_its_pane(folder: Path) -> None:
    facts = Record(folder).facts()
    for cells in (38, 60, 100):
        ratings = {kind * 80: {Player("p" * 80): Rating(1090.0, 900.0, 1280.0)} for kind in "kn"}
        for line in figures.lines(facts, 10, ratings, cells, DUSK):
            assert width(told([line])) <= cells


# The desk


async def test_questions_are_answered_on_one_thread_of_their_own_and_errors_go_to_who_asked() -> None:
    desk: Desk[list[int]] = Desk(list, "test")
    first = await desk.ask(lambda tool: tool.append(threading.get_ident()) or threading.get_ident())
    assert first != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await desk.ask(lambda _: 1 / 0)
    assert await desk.ask(lambda tool: tool) == [first]
    desk.close()
    with pytest.raises(asyncio.CancelledError):
        await desk.ask(len)


async def test_a_tool_that_cannot_be_had_is_told_to_who_asks_and_tried_again(tmp_path: Path) -> None:
    desk = Desk(lambda: Record(tmp_path / "later"), "test")
    with pytest.raises(StoreError, match="not a run"):
        await desk.ask(Record.facts)
    record(tmp_path / "later", steps=1)
    assert (await desk.ask(Record.facts)).last == 1
    desk.close()


async def test_a_question_that_is_no_longer_wanted_is_not_asked() -> None:
    desk: Desk[list[int]] = Desk(list, "test")
    hold = threading.Event()
    asked: list[str] = []
    slow = asyncio.create_task(desk.ask(lambda _: hold.wait(5)))
    await asyncio.sleep(0.02)
    dropped = asyncio.create_task(desk.ask(lambda _: asked.append("dropped")))
    wanted = asyncio.create_task(desk.ask(lambda _: asked.append("wanted")))
    await asyncio.sleep(0)
    dropped.cancel()
    await asyncio.sleep(0)
    hold.set()
    await asyncio.gather(slow, wanted)
    assert asked == ["wanted"]
    desk.close()


async def test_what_was_opened_is_closed_on_its_thread() -> None:
    closed: list[int] = []

    class Tool:
        def close(self) -> None:
            closed.append(threading.get_ident())

    desk = Desk(Tool, "test")
    here = await desk.ask(lambda _: threading.get_ident())
    desk.close()
    for _ in range(100):
        if closed:
            break
        await asyncio.sleep(0.01)
    assert closed == [here]


async def test_garbage_waits_for_the_end_of_a_slice_whatever_comes_of_it() -> None:
    def slice_that_fails() -> None:
        with collected_later(), collected_later():
            assert not gc.isenabled()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        slice_that_fails()
    assert gc.isenabled()


# Search


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("take", "I TAKE two; mistake", ["TAKE"]),
        ("ta* two", "take two, taking", ["take", "two", "taking"]),
        ('"i take"', "I  take. Take", ["I  take"]),
        ("[2] -four", "I take [2], four", ["2"]),
    ],
)
def test_what_was_searched_for_stands_out_in_a_line_that_is_else_the_same(
    query: str, text: str, found: list[str]
) -> None:
    pattern = parse(query).pattern()
    assert pattern is not None
    line: Line = (("▌ ", None), (text, Style(bold=True)))
    shown = marked(line, pattern)
    assert told([shown]) == told([line])
    assert [piece for piece, look in shown if look is not None and look.reverse] == found
    assert all(look.bold for piece, look in shown if look is not None)
    assert parse("step:3 illegal -take").pattern() is None


def test_a_summary_says_how_often_and_when() -> None:
    found = Found([Hit("1", 3, 0, "First", False, None)], 5, {3: 1, 9: 4})
    line = told([summary(found, 0, "", 100, DUSK)])
    assert "5 turns from step 3 to 9, the first 1 shown" in line
    assert "12 steps to index" in told([summary(found, 12, "", 100, DUSK)])


def test_notes_are_no_turns_where_those_shown_are_counted() -> None:
    note, turn = Hit("9", 2, NOTE, "", False, None), Hit("1", 3, 0, "First", False, None)
    assert "2 turns from step 3 to 9, the first 1 shown" in told(
        [summary(Found([note, turn], 2, {3: 1, 9: 1}), 0, "", 100, DUSK)]
    )
    assert "shown" not in told([summary(Found([note, turn], 1, {3: 1}), 0, "", 100, DUSK)])


def test_the_course_has_a_bar_a_step_or_as_many_as_fit() -> None:
    assert course({3: 1, 5: 2}, 20) == "▅▁█"
    assert len(course({0: 1, 999: 1}, 20)) == 20
    assert course({4: 7}, 20) == ""
