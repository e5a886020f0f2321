"""What plays tasks in tests, on tasks that are known."""

from __future__ import annotations

import pytest

from tests.tasks.play import last, play, three_steps


async def test_a_function_speaks_for_every_role():
    said = []

    def speak(role, messages):
        said.append((role, last(messages)))
        return "[1]"

    [result] = await play("nim", speak)
    assert {role for role, _ in said} == {"First", "Second"}
    assert sorted(result.rewards.values()) == [-1.0, 1.0]


@pytest.mark.parametrize(
    "preset",
    [
        "nim-pocket",
        "kuhn-pocket",
        "tictactoe-pocket",
        "games-pocket",
        "arithmetic-smollm2",
        "human_feedback-pocket",
    ],
)
async def test_a_preset_runs_three_steps(preset, tmp_path):
    """Those of other tasks do in their own tests."""
    steps = await three_steps(preset, tmp_path)
    assert len(steps) == 3
    assert all(step["episodes"] >= 4.0 for step in steps)
