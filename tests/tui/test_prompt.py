"""Editing a prompt: what is shown of the change, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from textual.app import App
from textual.widgets import Button, TextArea

from tests.tui.look import SIZES, play, seen, still, until, watching
from tui import editor
from tui.app import SelfPlayApp
from tui.screens.prompt import EditPrompt, difference
from tui.screens.run import RunScreen
from tui.theme import DUSK, palette
from tui.widgets.painted import Line, Painted


def plain(lines: list[Line]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


def marked(lines: list[Line]) -> list[str]:
    """The words set apart: struck out or underlined."""
    return [text for line in lines for text, look in line if look is not None and (look.strike or look.underline)]


async def opened(pilot: object, run: object) -> EditPrompt:
    await play(pilot, run, 3)  # type: ignore[arg-type]
    await pilot.press("p")  # type: ignore[attr-defined]
    app: App[None] = pilot.app  # type: ignore[attr-defined]
    await until(pilot, lambda: isinstance(app.screen, EditPrompt))  # type: ignore[arg-type]
    assert isinstance(app.screen, EditPrompt)
    return app.screen


@pytest.mark.parametrize("size", SIZES)
async def test_the_change_is_shown_before_it_is_made(size: tuple[int, int]) -> None:
    run = still()
    app: SelfPlayApp = watching(run)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, run)
        assert "no change yet" in seen(app)
        assert "In force from the next episode" in seen(app)
        assert screen.query_one("#apply", Button).disabled
        await pilot.press(*" New.")
        await until(pilot, lambda: seen(app).count("New.") == 2 and "+ You play Nim" in seen(app))
        assert not screen.query_one("#apply", Button).disabled


async def test_escape_leaves_everything_as_it_was() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, run)
        await pilot.press("x", "escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert not [call for call in run.calls if call.startswith("edit")]


async def test_a_theme_chosen_there_colours_what_changes() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot, run)
        await pilot.press(*" New.")
        screen.query_one("#cancel", Button).focus()
        await pilot.press("t")
        await pilot.pause()
        assert palette(app.theme) is not DUSK
        looks = {look for line in screen.query_one("#diff", Painted).lines for text, look in line if "New." in text}
        assert {look.color.get_truecolor().hex for look in looks if look and look.color} == {
            palette(app.theme).good
        }


async def test_both_roles_can_be_edited_at_once() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot, run)
        first = screen.role
        await pilot.press("A")
        await pilot.press("f2")
        await until(pilot, lambda: screen.role != first)
        await pilot.press("B")
        await pilot.press("f2")
        await until(pilot, lambda: screen.query_one(TextArea).text.endswith("wins.A"))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: len([call for call in run.calls if call.startswith("edit")]) == 2)
        assert run.roles[first].system_prompt.endswith("wins.A")
        assert {role.system_prompt[-1] for role in run.roles.values()} == {"A", "B"}


async def test_applying_nothing_says_so_and_stays() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        screen = await opened(pilot, run)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "Nothing has changed yet" in seen(app))
        assert app.screen is screen


async def test_the_button_applies_too() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, run)
        await pilot.press("Z")
        await pilot.click("#apply")
        await until(pilot, lambda: f"edit {screen.role}" in run.calls)


async def test_a_prompt_with_controls_is_shown_without_them() -> None:
    run = still()
    run.roles["First"].system_prompt = "a\x1b[2Jb [bold]c"
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot, run)
        if screen.role != "First":
            await pilot.press("f2")
        await until(pilot, lambda: "a␛[2Jb [bold]c" in seen(app))
        assert "\x1b" not in seen(app)


async def test_a_finished_runs_prompts_cannot_be_edited() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await play(pilot, run, 2)
        await run.stop()
        await until(pilot, lambda: "stopped" in seen(app))
        await pilot.press("p")
        await until(pilot, lambda: "Prompts can be edited" in seen(app))


@pytest.mark.parametrize("size", SIZES)
async def test_earlier_versions_are_taken_up_one_by_one_and_then_the_draft_again(size: tuple[int, int]) -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=size, notifications=True) as pilot:
        await play(pilot, run, 2)
        first = run.roles["First"].system_prompt
        await run.edit_role("First", "Second version.")
        await run.edit_role("First", "Third version.")
        screen = await opened(pilot, run)
        if screen.role != "First":
            await pilot.press("f2")
        area = screen.query_one(TextArea)
        await until(pilot, lambda: area.text == "Third version.")
        await pilot.press("!")
        for text, words in (("Second version.", "As before edit 2"), (first, "As before edit 1")):
            await pilot.press("ctrl+r")
            await until(pilot, lambda t=text, w=words: area.text == t and w in seen(app))
        await pilot.press("ctrl+r")
        await until(pilot, lambda: area.text == "Third version.!" and "In force from the next episode" in seen(app))
        await pilot.press("ctrl+r", "ctrl+s")
        await until(pilot, lambda: run.calls.count("edit First") == 3)
        assert run.roles["First"].system_prompt == "Second version."


async def test_a_prompt_never_edited_has_no_earlier_version() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await opened(pilot, run)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "has not been edited" in seen(app))


@contextmanager
def nowhere(app: App[None]) -> Iterator[None]:
    """A headless app has no terminal to give away."""
    yield


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes `$EDITOR` a shell script, which is given the file as `$1`."""
    monkeypatch.setattr(editor, "aside", nowhere)
    monkeypatch.delenv("VISUAL", raising=False)

    def write(script: str) -> None:
        file = tmp_path / "an editor"
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        monkeypatch.setenv("EDITOR", f"'{file}' --wait")

    return write


async def test_the_persons_own_editor_writes_the_prompt_while_the_run_plays_on(program) -> None:
    program('sleep 0.3; printf " Written [b]elsewhere.\\033[2J\\n" >> "$2"')
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, run)
        before = screen.query_one(TextArea).text
        await pilot.press("ctrl+e")
        step = run.status().step
        while run.status().step == step:
            run.advance()
        area = screen.query_one(TextArea)
        await until(pilot, lambda: area.text == f"{before} Written [b]elsewhere.␛[2J")
        await until(pilot, lambda: "+ You play Nim" in seen(app))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: f"edit {screen.role}" in run.calls)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 3", "ended with status 3"),
        ("head -c 100010 /dev/zero | tr '\\0' x > $2", "at most 100,000 characters"),
    ],
)
async def test_an_editor_that_fails_leaves_the_prompt_as_it_was(program, script: str, said: str) -> None:
    program(script)
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await opened(pilot, run)
        before = screen.query_one(TextArea).text
        await pilot.press("ctrl+e")
        await until(pilot, lambda: said in " ".join(seen(app).split()))
        assert screen.query_one(TextArea).text == before


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "No editor is set: .* export EDITOR=nano"),
        ({"EDITOR": "  "}, "No editor is set"),
        ({"EDITOR": "no-such-program -w"}, "no program 'no-such-program' here"),
        ({"EDITOR": "true", "VISUAL": "'open"}, r"\$VISUAL is \"'open\", which is no command"),
    ],
)
def test_without_an_editor_the_error_says_how_to_have_one(environment: dict[str, str], said: str) -> None:
    with pytest.raises(editor.EditorError, match=said):
        editor.command(environment)


def test_visual_comes_before_editor() -> None:
    assert editor.command({"EDITOR": "no-such-program", "VISUAL": "true -x 'a b'"}) == ["true", "-x", "a b"]


async def test_a_terminal_that_cannot_be_given_away_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "true")
    monkeypatch.delenv("VISUAL", raising=False)
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await opened(pilot, run)
        await pilot.click("#editor")
        await until(pilot, lambda: "make room for an editor" in seen(app))


def test_a_difference_names_what_went_and_what_came() -> None:
    lines = difference("Take one stick.\nBe kind.", "Take two sticks.\nBe kind.", 60, DUSK)
    assert plain(lines) == ["− Take one stick.", "+ Take two sticks."]
    assert marked(lines) == ["one", "stick.", "two", "sticks."]


def test_a_line_added_and_a_line_taken_away() -> None:
    assert plain(difference("a\nb", "a\nb\nc", 60, DUSK)) == ["+ c"]
    assert plain(difference("a\nb\nc", "a\nc", 60, DUSK)) == ["− b"]
    assert plain(difference("a", "a", 60, DUSK)) == ["  no change yet"]


def test_a_long_line_is_set_in_several() -> None:
    lines = plain(difference("", "one two three four", 12, DUSK))
    assert [line for line in lines if line.strip("−+ ")] == ["+ one two ", "  three four"]
