"""A person who looks elsewhere is called when a run ends or needs them: by what their desktop understands, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from engine.events import RunState, StateChanged
from engine.types import Question
from tests.tui.look import play, seen, still, until, watching
from tui import notices
from tui.memory import Memory
from tui.notices import News, way
from tui.session import Session


def has(*tools: str) -> Callable[[str], str | None]:
    return lambda name: f"/usr/bin/{name}" if name in tools else None


OSC_9 = "\x1b]9;selfplay-tui: done\x07"
OSC_777 = "\x1b]777;notify;selfplay-tui;done\x07"


@pytest.mark.parametrize(
    ("environ", "platform", "tools", "chosen"),
    [
        ({"DISPLAY": ":0"}, "linux", ["notify-send"], "notify-send"),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", ["notify-send"], "notify-send"),
        ({}, "linux", ["notify-send"], None),
        ({"DISPLAY": ":0"}, "linux", [], None),
        ({}, "darwin", ["osascript"], "osascript"),
        ({"TERM_PROGRAM": "iTerm.app", "SSH_TTY": "/dev/pts/0"}, "darwin", ["osascript"], OSC_9),
        ({"TERM_PROGRAM": "WezTerm"}, "linux", [], OSC_9),
        ({"KITTY_WINDOW_ID": "1"}, "linux", [], OSC_9),
        ({"TERM": "xterm-ghostty", "SSH_CONNECTION": "x", "DISPLAY": ":10"}, "linux", ["notify-send"], OSC_9),
        ({"VTE_VERSION": "7600"}, "linux", [], OSC_777),
        ({"TERM": "foot"}, "linux", [], OSC_777),
        ({"TERM": "rxvt-unicode-256color"}, "linux", [], OSC_777),
        ({"TERM": "xterm-256color"}, "linux", [], None),
        ({"TERM": "screen", "TMUX": "/tmp/t,1,0"}, "linux", [], f"\x1bPtmux;\x1b{OSC_9}\x1b\\"),
    ],
)
def test_the_way_fits_the_desktop(
    environ: Mapping[str, str], platform: str, tools: list[str], chosen: str | None
) -> None:
    found = way("done", environ, platform, has(*tools))
    assert (found[0] if isinstance(found, list) else found) == chosen


def test_what_a_run_says_is_never_read_as_anything_but_text() -> None:
    hostile = 'a" & do shell script "x" <b>; 4;1'
    apple = way(hostile, {}, "darwin", has("osascript"))
    assert isinstance(apple, list)
    assert apple[-1] == hostile
    assert "do shell" not in apple[2]
    linux = way(hostile, {"DISPLAY": ":0"}, "linux", has("notify-send"))
    assert isinstance(linux, list)
    assert linux[-3] == "--"
    assert "<b>" not in linux[-1]
    vte = way(hostile, {"VTE_VERSION": "7600"}, "linux", has())
    assert isinstance(vte, str)
    assert vte.count(";") == 3


async def test_each_thing_is_told_once() -> None:
    run, news = still(), News()
    session = Session(run)
    told = []

    def happen(state: RunState | None = None, reason: str = "") -> None:
        if state is not None:
            session.store.fold([StateChanged(state, reason)])
        told.append(news.of(session))

    happen()
    happen(RunState.RUNNING)
    happen(RunState.PAUSED)  # by hand: whoever did it knows
    happen(RunState.RUNNING)
    happen(RunState.PAUSED, "disk is full")
    happen()
    run.questions = [Question(1, "0", "?")]
    happen()
    happen()
    happen(RunState.FAILED, "no memory\x1b[2J")
    assert told == ["", "", "", "", "nim-3 waits for you: disk is full", "", "nim-3 asks you something", "",
                    "nim-3 has failed: no memory␛[2J"]  # fmt: skip


async def test_a_run_that_was_over_when_it_was_opened_is_no_news() -> None:
    session = Session(still())
    session.show_only(RunState.FINISHED)
    assert News().of(session) == ""


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is handed to the terminal, in one that shows notices."""
    for name in ("SSH_CONNECTION", "SSH_TTY", "TMUX", "DISPLAY", "WAYLAND_DISPLAY", "VTE_VERSION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM_PROGRAM", "WezTerm")
    monkeypatch.setattr(notices.sys, "platform", "linux")
    return []


async def test_the_end_of_a_run_is_told_unless_the_terminal_is_in_front(sent: list[str]) -> None:
    for in_front, wanted in ((False, 1), (True, 0)):
        sent.clear()
        run = still()
        app = watching(run)
        async with app.run_test(size=(80, 24)) as pilot:
            app.caller.write = sent.append
            app.caller.in_front = in_front
            await play(pilot, run, 2)
            run.fail("no memory")
            await until(pilot, lambda app=app: "The run failed" in seen(app))
            await pilot.pause(0.2)
        assert len(sent) == wanted
        assert all(text == "\x1b]9;selfplay-tui: nim-3 has failed: no memory\x07" for text in sent)


async def test_notices_can_be_turned_off_and_stay_off(sent: list[str], tmp_path) -> None:
    run = still()
    app = watching(run, memory=Memory(tmp_path / "app.json"))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        app.caller.write = sent.append
        await play(pilot, run, 2)
        await pilot.press("f8")
        await until(pilot, lambda: "Notices on the desktop are off" in seen(app))
        run.fail("no memory")
        await until(pilot, lambda: "The run failed" in seen(app))
        await pilot.pause(0.2)
    assert sent == []
    assert not watching(still(), memory=Memory(tmp_path / "app.json")).caller.wanted
