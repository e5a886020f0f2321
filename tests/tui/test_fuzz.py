"""10,000 hostile strings, in a real terminal: what comes out holds no sequence but those Textual writes anyway."""

from __future__ import annotations

import sys

import pytest

from tests.tui.fuzz import FORBIDDEN, kinds, shown, unseen
from tests.tui.hostile import many
from tests.tui.pseudo import Terminal
from tui.actions import SCOPES, Scope
from tui.text import clean, fit, one_line, width, wrap

THEMES_OWN = {"style 1", "style 3"}
"""Bold and italic: whether they come depends on what was in sight."""


def written(scope: str, *more: str) -> str:
    """All that the app writes to its terminal. Fails where it isn't UTF-8, as of half a character."""
    terminal = Terminal([sys.executable, "-m", "tests.tui.fuzz", scope, *more], 160, 45)
    output = bytearray()
    read = terminal.read

    def kept(seconds: float) -> bytes:
        data = read(seconds)
        output.extend(data)
        return data

    terminal.read = kept  # type: ignore[method-assign]
    assert terminal.end(300.0) == 0, bytes(output[-3000:]).decode(errors="replace")
    return output.decode()


BELL = {"\x07"}
"""It rings when an episode begins to ask."""

MARKS = {"run": []}
"""The screen that shows most of what models write is sent through always, the others with `-m slow`."""


SHOWN: dict[Scope, int] = {
    "home": 5500, "form": 9500, "compare": 100, "run": 3900, "metrics": 9500, "league": 9500, "steer": 1900,
    "edit": 8000, "ask": 4800, "play": 900, "why": 1200, "replay": 8000, "search": 5000, "app": 700,
}  # fmt: skip
"""How many of the 10,000 strings have to come out: nine of ten of those that did when this was written. Screens are
given all (`app`, toasts, one of a dozen), and cut, fold or bound some away."""


@pytest.mark.timeout(420)
@pytest.mark.parametrize(
    "scope", [pytest.param(scope, marks=MARKS.get(scope, [pytest.mark.slow])) for scope in SCOPES]
)
def test_a_screen_writes_no_sequence_it_did_not_mean_to(scope: Scope) -> None:
    output, harmless = written(scope), written(scope, "--harmless")
    assert kinds(output) <= kinds(harmless) | THEMES_OWN
    assert unseen(output) <= (BELL if scope == "ask" else set())
    assert len(shown(output)) >= SHOWN[scope]


def test_the_oracle_sees_what_it_is_to_see() -> None:
    assert kinds("\x1b[38;2;1;2;3;1mx\x1b[3;4H") == {"style 1", "place"}
    assert kinds("\x1b]52;c;x\x07\x1b[2J\x1bc\x1b[5m\x1b[999;1H") == {
        "OSC 52",
        "CSI 2J",
        "ESC c",
        "style 5",
        "place [999, 1]",
    }
    assert unseen("a\x07\x9b\u200b\u202e\x1b[0m\r\n") == {"\x07", "\x9b", "\u200b", "\u202e"}


def test_ten_thousand_strings_are_made_plain() -> None:
    """Before any widget: no control is left, and a text is as wide as its cells."""
    import unicodedata

    strings = many()
    assert len(strings) == 10_000
    assert max(map(len, strings)) > 1_000_000
    for text in strings:
        plain = clean(text, 2000)
        assert not {c for c in plain if unicodedata.category(c) in FORBIDDEN} - {"\n"}, ascii(text)
        assert all(width(line) <= 37 for line in wrap(plain, 37))
        assert width(fit(one_line(text), 37)) == 37
