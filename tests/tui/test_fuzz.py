"""10,000 hostile strings, in a real terminal: what comes out holds no sequence but those Textual writes anyway."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from textual.events import Paste

from tests.tui.demo import app as demo_app
from tests.tui.fuzz import FORBIDDEN, TAG, kinds, shown, unseen
from tests.tui.hostile import many
from tests.tui.look import until
from tests.tui.paging import portions
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


ALL = 10_000

SAMPLES: dict[Scope, range] = {"app": range(0, ALL, 20)}
"""The numbers of the strings that have to come out where it isn't all: 500 toasts, which come one by one."""


@pytest.mark.timeout(420)
@pytest.mark.parametrize(
    "scope", [pytest.param(scope, marks=MARKS.get(scope, [pytest.mark.slow])) for scope in SCOPES]
)
def test_a_screen_shows_all_strings_and_writes_no_sequence_it_did_not_mean_to(scope: Scope) -> None:
    """All 10,000 in its lists and texts, 500 as toasts; titles and details show one at a time, and some dozens."""
    output, harmless = written(scope), written(scope, "--harmless")
    assert kinds(output) <= kinds(harmless) | THEMES_OWN
    assert unseen(output) <= (BELL if scope == "ask" else set())
    assert shown(output) >= set(SAMPLES.get(scope, range(ALL)))


async def test_what_is_pasted_into_a_field_is_plain() -> None:
    app = demo_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("slash")
        field = app.home.filter
        for some in portions(many(), 1000):
            field.value = ""
            app.post_message(Paste(TAG.join("".join(text.splitlines()) for text in some)))
            await until(pilot, lambda: bool(field.value))
            assert field.value.count(TAG) == len(some) - 1
            assert not {c for c in field.value if unicodedata.category(c) in FORBIDDEN}


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
    strings = many()
    assert len(strings) == ALL
    assert max(map(len, strings)) > 1_000_000
    for text in strings:
        plain = clean(text, 2000)
        assert not {c for c in plain if unicodedata.category(c) in FORBIDDEN} - {"\n"}, ascii(text)
        assert all(width(line) <= 37 for line in wrap(plain, 37))
        assert width(fit(one_line(text), 37)) == 37
