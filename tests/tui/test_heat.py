"""Heat, without a terminal: tokens spelt one by one, levels, and lines that are those of the plain text."""

from __future__ import annotations

import math
import random

import pytest

from tests.tui.hostile import CHOSEN, random_strings
from tui.text import clean, wrap
from tui.theme import PALETTES
from tui.transcript.heat import Spelling, joined, legend, levels, lines, look

DUSK = PALETTES["dusk"]


def in_bytes(tokens: list[int]) -> str:
    """A vocabulary of bytes, as GPT-2's: a character may take four tokens."""
    return bytes(token for token in tokens if token < 256).decode(errors="replace")


def leading_space_dropped(tokens: list[int]) -> str:
    """As SentencePiece decodes: a space where the text begins is left out."""
    return "".join([" one", " two", "three"][token] for token in tokens).removeprefix(" ")


def spelt(tokens: list[int], decode, at_once: int = 1000) -> list[str]:
    spelling = Spelling()
    while spelling.go_on(tokens, decode, at_once):
        pass
    return spelling.pieces


@pytest.mark.parametrize("at_once", [1, 3, 1000])
@pytest.mark.parametrize("text", ["plain", "naïve 漢字 🎲!", "🎲", "a\ufffdb", ""])
def test_pieces_together_are_the_text_and_there_is_one_for_each_token(text: str, at_once: int) -> None:
    tokens = list(text.encode())
    pieces = spelt(tokens, in_bytes, at_once)
    assert len(pieces) == len(tokens)
    assert "".join(pieces) == text


def test_a_character_of_several_tokens_belongs_to_its_last() -> None:
    assert spelt(list("a🎲".encode()), in_bytes) == ["a", "", "", "", "🎲"]


def test_bytes_that_never_become_a_character_are_shown_as_broken_ones() -> None:
    tokens = [0x80] * 40
    pieces = spelt(tokens, in_bytes)
    assert len(pieces) == 40
    assert set("".join(pieces)) == {"\N{REPLACEMENT CHARACTER}"}


def test_a_space_that_a_decoder_drops_at_the_beginning_is_there_in_the_middle() -> None:
    assert spelt([0, 1, 0, 2, 1], leading_space_dropped) == ["one", " two", " one", "three", " two"]


def test_spelling_goes_on_where_a_stream_was() -> None:
    spelling, tokens = Spelling(), list(b"four")
    assert spelling.go_on(tokens[:2], in_bytes, 10) == 2
    assert spelling.go_on(tokens, in_bytes, 10) == 2
    assert spelling.go_on(tokens, in_bytes, 10) == 0
    assert spelling.pieces == list("four")


def test_half_a_character_waits_while_more_is_to_come() -> None:
    spelling, tokens = Spelling(), list("a🎲".encode())
    assert spelling.go_on(tokens[:3], in_bytes, 10, is_over=False) == 1
    assert spelling.pieces == ["a"]
    assert spelling.go_on(tokens, in_bytes, 10, is_over=False) == 4
    assert spelling.pieces == ["a", "", "", "", "🎲"]
    cut = Spelling()
    assert cut.go_on(tokens[:3], in_bytes, 10) == 3
    assert "".join(cut.pieces) == "a\ufffd"


def test_levels_follow_the_bounds_that_the_legend_names() -> None:
    chances = [1.0, 0.51, 0.49, 0.11, 0.09, 0.011, 0.009, 1e-9]
    assert levels("probability", [math.log(p) for p in chances], ()) == [0, 0, 1, 1, 2, 2, 3, 3]
    ratios = [0.1, 0.79, 0.81, 0.94, 0.96, 1.0, 1.04, 1.06, 1.24, 1.26, 9.0]
    assert levels("ratio", (), ratios) == [-2, -2, -1, -1, 0, 0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("palette", PALETTES.values(), ids=str)
def test_the_hottest_differ_by_more_than_colour(palette) -> None:
    def marks(mode: str, level: int) -> tuple[bool, bool]:
        style = look(mode, level, palette)
        return bool(style.bold), bool(style.underline)

    assert len({marks("probability", level) for level in (0, 2, 3)}) == 3
    assert len({marks("ratio", level) for level in (-2, 0, 2)}) == 3


def test_the_legend_shows_each_level_as_it_looks_and_fits_a_narrow_pane() -> None:
    for mode, every in (("probability", range(4)), ("ratio", range(-2, 3))):
        line = legend(mode, DUSK)
        shown = [style for text, style in line[1:] if text.strip()]
        assert sorted(map(str, shown)) == sorted(str(look(mode, level, DUSK)) for level in every)
        assert sum(len(text) for text, _ in line) <= 46
    assert "not known" in legend("ratio", DUSK, "not known yet")[1][0]


def test_lines_with_heat_are_the_lines_without_it() -> None:
    rng = random.Random(4)
    for text in [*CHOSEN, *random_strings(60, 3), "one two  three\n\n\n\n\nfour " * 9]:
        tokens = list(text[:3000].encode(errors="replace"))
        found = [rng.randint(0, 3) for _ in tokens]
        pieces = joined(spelt(tokens, in_bytes), found, stopped=False)
        for cells in (7, 30):
            shown = lines(pieces, "probability", cells, DUSK)
            plain = wrap(clean("".join(text for text, _ in pieces)), cells)
            assert ["".join(text for text, _ in line) for line in shown] == plain


def test_each_character_has_the_look_of_its_token() -> None:
    pieces = joined(["ab", " c", "d\n", "e"], [0, 3, 2, 1], stopped=False)
    [first, second] = lines(pieces, "probability", 20, DUSK)
    assert [text for text, _ in first] == ["ab", " c", "d"]
    assert [style for _, style in first] == [look("probability", level, DUSK) for level in (0, 3, 2)]
    assert second == (("e", look("probability", 1, DUSK)),)


def test_the_end_of_a_turn_is_a_token_too() -> None:
    assert joined(["yes", ""], [0, 2], stopped=True) == [("yes", 0), ("∎", 2)]
    assert joined(["yes", ""], [0, 2], stopped=False) == [("yes", 0), ("", 2)]
