"""Text from a model is hostile: the one place that makes it safe to show.

A reply may hold escape sequences that write the clipboard or clear the screen, controls that turn the reading
direction around, a million newlines, halves of characters, or a letter under a hundred accents. `clean` turns
any string into one whose every character stands for itself: no controls but newline, nothing invisible, and a
width that is the sum of its characters' widths, so that cutting and padding never disagree with the terminal.
The result is *plain*: it must still reach widgets as `Content` or with markup off, for `[b]` is left as it is.
"""

from __future__ import annotations

import re
import unicodedata

from rich.cells import cell_len, get_character_cell_size

LIMIT = 20_000
"""Longest text shown, in characters; the middle of a longer one is left out, and said to be."""

MARKS = 2
"""Accents kept on one letter."""

TAB = "    "
ELLIPSIS = "…"
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def _shown(code: int) -> str:
    """What stands for one code point."""
    if code == 0x0A:
        return "\n"
    if code == 0x09:
        return TAB
    if code in (0x0D, 0x85, 0x2028, 0x2029):
        return "\n"
    if code < 0x20:
        return chr(0x2400 + code)  # the control's own picture: ␛ is honest and harmless
    if code == 0x7F:
        return "\N{SYMBOL FOR DELETE}"
    if 0x1F1E6 <= code <= 0x1F1FF:
        return chr(ord("A") + code - 0x1F1E6)  # two of these join into one flag; letters don't
    if 0x1F3FB <= code <= 0x1F3FF:
        return ""  # skin tones join the emoji before them
    if 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF:
        return ""  # variation selectors change the width of the character before them
    character = chr(code)
    category = unicodedata.category(character)
    if category == "Cf":
        return ""  # joiners, zero-width spaces, direction marks, tags
    if category in ("Cc", "Cs", "Co", "Cn"):
        return REPLACEMENT
    if category in ("Mn", "Me"):
        return character
    return character if get_character_cell_size(character) else ""  # fillers that take no cell


class _Table(dict[int, str]):
    def __missing__(self, code: int) -> str:
        self[code] = shown = _shown(code)
        return shown


_TABLE = _Table()
_BLANKS = re.compile(r"\n{4,}")


def clean(text: str, limit: int = LIMIT) -> str:
    """`text` made safe to show, in at most `limit` characters and a note; newlines stay, tabs become spaces."""
    if len(text) > limit:
        half = limit // 2
        gap = f"\n{ELLIPSIS} {len(text) - 2 * half:,} characters left out {ELLIPSIS}\n"
        return clean(text[:half], limit) + gap + clean(text[-half:], limit)
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n").translate(_TABLE)
    if not text.isascii():
        text = _thin(text)
    return _BLANKS.sub("\n\n\n", text)


def _thin(text: str) -> str:
    """`text` with at most `MARKS` characters that take no cell after each that does."""
    kept, run = [], 0
    for character in text:
        run = run + 1 if character != "\n" and not get_character_cell_size(character) else 0
        if run <= MARKS:
            kept.append(character)
    return "".join(kept)


def one_line(text: str, limit: int = 400) -> str:
    """`text` cleaned into a single line: for titles, cells, toasts."""
    return " ".join(clean(text[:limit], limit).split())


def width(text: str) -> int:
    """How many cells `text`, cleaned, takes."""
    return len(text) if text.isascii() else cell_len(text)


def fit(text: str, cells: int, align: str = "left") -> str:
    """`text` in exactly `cells` cells: cut with an ellipsis, or padded on the side that `align` leaves."""
    if cells <= 0:
        return ""
    if (taken := width(text)) > cells:
        text = head(text, cells - 1) + ELLIPSIS
        taken = width(text)
    pad = " " * (cells - taken)
    return pad + text if align == "right" else text + pad


def head(text: str, cells: int) -> str:
    """The longest beginning of `text` that fits in `cells` cells."""
    if text.isascii():
        return text[: max(cells, 0)]
    taken = 0
    for index, character in enumerate(text):
        taken += get_character_cell_size(character)
        if taken > cells:
            return text[:index]
    return text


def tail(text: str, cells: int) -> str:
    """The end of `text` that fits in `cells` cells, led by an ellipsis where something came before."""
    if width(text) <= cells:
        return text
    if cells <= 1:
        return ELLIPSIS[:cells]
    taken, start = 0, len(text)
    while start > 0 and taken + get_character_cell_size(text[start - 1]) <= cells - 1:
        start -= 1
        taken += get_character_cell_size(text[start])
    return ELLIPSIS + text[start:]


def middle(text: str, cells: int) -> str:
    """`text` in at most `cells` cells: of what is too long the middle is left out, since names that begin alike
    differ at their ends."""
    if width(text) <= cells:
        return text
    begun = head(text, max(cells - 1, 0) // 2)
    return begun + tail(text, cells - width(begun))


def wrap(text: str, cells: int) -> list[str]:
    """Cleaned `text` as lines of at most `cells` cells (2 or more), broken at spaces where there are any."""
    cells = max(cells, 2)
    return [line for paragraph in text.split("\n") for line in _wrap(paragraph, cells)]


def _wrap(paragraph: str, cells: int) -> list[str]:
    lines = []
    while width(paragraph) > cells:
        line = head(paragraph, cells)
        rest = paragraph[len(line) :]
        space = line.rfind(" ")
        if not rest.startswith(" ") and line[: space + 1].strip():
            line, rest = line[:space], paragraph[space + 1 :]
        lines.append(line.rstrip())
        paragraph = rest.removeprefix(" ")
    lines.append(paragraph.rstrip())
    return lines
