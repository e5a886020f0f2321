"""Copying asks the system's own tool first."""

from __future__ import annotations

import pytest

from tui import clipboard


def everything(name: str) -> str:
    return f"/usr/bin/{name}"


def nothing(name: str) -> None:
    return None


def test_each_system_has_its_tool() -> None:
    assert clipboard.tool({}, "darwin", everything) == ["pbcopy"]
    assert clipboard.tool({"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}, "linux", everything) == ["wl-copy"]
    assert clipboard.tool({"DISPLAY": ":0"}, "linux", everything) == ["xclip", "-selection", "clipboard"]


def test_there_is_none_without_a_display_or_a_program() -> None:
    assert clipboard.tool({}, "linux", everything) is None
    assert clipboard.tool({"DISPLAY": ":0"}, "linux", nothing) is None
    assert clipboard.tool({}, "darwin", nothing) is None


async def test_the_tool_gets_the_text(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    kept = f"{tmp_path}/kept"
    monkeypatch.setattr(clipboard, "tool", lambda *_: ["sh", "-c", f"cat > {kept}"])
    assert await clipboard.copy("héllo [b]", lambda _: None) == "sh"
    with open(kept) as file:
        assert file.read() == "héllo [b]"


@pytest.mark.parametrize("command", [["false"], ["/no/such/program"]])
async def test_where_the_tool_fails_the_terminal_is_asked(
    monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setattr(clipboard, "tool", lambda *_: command)
    asked: list[str] = []
    assert await clipboard.copy("x", asked.append) == "the terminal"
    assert asked == ["x"]
