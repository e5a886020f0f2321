"""Cleaning: whatever goes in, what comes out is safe to show and as wide as it says."""

from __future__ import annotations

import random
import unicodedata

import pytest
from rich.cells import cell_len

from tests.tui.hostile import STRINGS
from tui.text import LIMIT, clean, fit, head, middle, one_line, tail, width, wrap

FORBIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def categories(text: str) -> set[str]:
    return {unicodedata.category(character) for character in text}


def test_nothing_but_newlines_and_what_can_be_seen_is_left() -> None:
    for text in STRINGS:
        assert not categories(clean(text).replace("\n", "")) & FORBIDDEN, repr(text)


def test_cleaning_twice_changes_nothing() -> None:
    for text in STRINGS:
        assert clean(clean(text)) == clean(text), repr(text)


def test_every_code_point_is_harmless_after_cleaning() -> None:
    for start in range(0, 0x110000, 4096):
        block = "".join(map(chr, range(start, start + 4096)))
        assert not categories(clean(block).replace("\n", "")) & FORBIDDEN


def test_the_width_of_a_text_is_the_sum_of_its_characters_widths() -> None:
    rng = random.Random(1)
    for _ in range(300):
        text = clean("".join(chr(rng.randrange(0x110000)) for _ in range(40))).replace("\n", "")
        assert cell_len(text) == sum(cell_len(character) for character in text)


def test_an_escape_sequence_becomes_letters() -> None:
    assert clean("\x1b]52;c;aGk=\x07") == "␛]52;c;aGk=␇"
    assert clean("\x1b[2J\x9b2J") == "␛[2J\ufffd2J"


def test_markup_is_left_as_it_was_written() -> None:
    assert clean("[/think] [bold]x[/] \\[") == "[/think] [bold]x[/] \\["


def test_direction_marks_joiners_and_halves_of_characters_go() -> None:
    assert clean("a\u202eb\u2066c\u200dd\u200be\ufeff") == "abcde"
    assert clean("x\ud800y") == "x\ufffdy"


def test_accents_do_not_pile_up() -> None:
    assert clean("e" + "\u0301" * 50) == "e\u0301\u0301"


def test_flags_and_skin_tones_cannot_change_a_width() -> None:
    assert clean("\U0001f1eb\U0001f1f7") == "FR"
    assert clean("\U0001f44b\U0001f3fd") == "\U0001f44b"


def test_ordinary_writing_of_many_scripts_is_kept() -> None:
    for text in ("naïve café", "你好,世界", "שלום", "مرحبا", "नमस्ते", "สวัสดี", "Ελληνικά", "🎲🙂", "x² ≤ ∑ → ●"):
        assert clean(text) == text


def test_a_long_text_loses_its_middle_and_says_so() -> None:
    text = clean("a" * 30_000 + "b" * 30_000)
    assert len(text) < LIMIT + 100
    assert text.startswith("aaa")
    assert text.endswith("bbb")
    assert "40,000 characters left out" in text


def test_a_million_newlines_are_a_few() -> None:
    assert clean("x" + "\n" * 1_000_000 + "y").count("\n") < 10


def test_one_line_has_no_newline() -> None:
    assert one_line("a\n\nb\r\nc\td") == "a b c d"


@pytest.mark.parametrize("cells", [1, 2, 3, 7, 40])
def test_fitted_text_takes_exactly_its_cells(cells: int) -> None:
    for line in map(one_line, STRINGS):
        assert width(fit(line, cells)) == cells, repr(line)
        assert width(head(line, cells)) <= cells, repr(line)
        assert width(tail(line, cells)) <= cells, repr(line)


@pytest.mark.parametrize("cells", [2, 5, 31])
def test_wrapped_lines_fit_and_lose_no_letter(cells: int) -> None:
    for cleaned in map(clean, STRINGS):
        lines = wrap(cleaned, cells)
        assert all(width(line) <= cells for line in lines), repr(cleaned)
        assert "".join("".join(lines).split()) == "".join(cleaned.split()), repr(cleaned)


def test_lines_break_at_spaces() -> None:
    assert wrap("one two three", 8) == ["one two", "three"]
    assert wrap("one\n\ntwo", 8) == ["one", "", "two"]
    assert wrap("unbreakable", 4) == ["unbr", "eaka", "ble"]


def test_what_is_too_long_keeps_both_its_ends() -> None:
    assert middle("First · illegal move", 20) == "First · illegal move"
    assert middle("First · illegal move", 11) == "First… move"
    assert [middle("abc", cells) for cells in range(4)] == ["", "…", "…c", "abc"]
    for cells in (0, 1, 7, 30):
        assert all(width(middle(one_line(text), cells)) <= cells for text in STRINGS)
