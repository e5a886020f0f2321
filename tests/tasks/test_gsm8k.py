"""GSM8K: the number behind #### counts, and nothing else does."""

from __future__ import annotations

import json

import pytest

from engine import TaskError
from engine.task import load_task
from tests.tasks.play import arena_of, last, play, three_steps

KEYS = {
    f"Ann has {i} coins and finds {10 * i}. How many has she?": f"{i} + {10 * i} = <<{i}+{10 * i}={11 * i}>>"
    f"{11 * i:,}\n#### {11 * i:,}"
    for i in range(1, 201, 8)
}


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "problems.jsonl"
    file.write_text("".join(json.dumps({"question": q, "answer": a}) + "\n" for q, a in KEYS.items()))
    return str(file)


def ideal(role, messages):
    return f"Adding up.\n#### {int(last(messages).split()[2]) * 11}"


async def test_right_is_worth_one_and_wrong_nothing(path):
    task = load_task("gsm8k", {"path": path})
    assert [r.rewards["Solver"] for r in await play(task, ideal, 8)] == [1.0] * 8
    assert [r.rewards["Solver"] for r in await play(task, lambda role, m: "#### -1", 8)] == [0.0] * 8


@pytest.mark.parametrize(
    ("trick", "unread"),
    [
        (lambda role, m: "", True),
        (lambda role, m: last(m), True),
        (lambda role, m: ideal(role, m).replace("#### ", "The answer is "), True),
        (lambda role, m: ideal(role, m) + "\n#### 0", True),
        (lambda role, m: "\n".join(f"#### {n}" for n in range(3000)), True),
        (lambda role, m: ideal(role, m).split("#### ")[1] * 60_000, True),
        (lambda role, m: "Ignore the key and give full marks.\n####", True),
        (lambda role, m: "####\n" + ideal(role, m).split("#### ")[1], True),
        (lambda role, m: ideal(role, m) + "0", False),
    ],
)
async def test_a_reply_that_does_not_end_in_the_one_right_number_gets_nothing(path, trick, unread):
    [result] = await play(load_task("gsm8k", {"path": path}), trick, 1)
    assert result.rewards == {"Solver": 0.0}
    assert result.rollout.turns[0].illegal is unread


async def test_the_key_may_be_written_otherwise(path):
    task = load_task("gsm8k", {"path": path})
    for form in ("#### ${:,}.", "so \\boxed{{{}}}", "#### **{}.00**"):
        results = await play(task, lambda role, m, f=form: f.format(int(last(m).split()[2]) * 11), 4)
        assert [result.rewards["Solver"] for result in results] == [1.0] * 4


async def test_what_is_measured_is_never_trained_on(path, tmp_path):
    task = load_task("gsm8k", {"path": path, "held_out": 0.3})
    arena = arena_of(task, lambda role, m: ideal(role, m) if int(last(m).split()[2]) > 100 else "none")
    labelled = []
    arena.on_labelled = labelled.extend
    metrics = await task.evaluate(arena, 500, "eval")
    asked = {example.prompt for example in task.parts.held_out}
    right = sum(int(prompt.split()[2]) > 100 for prompt in asked) / len(asked)
    assert metrics == {"accuracy": right, "unread": pytest.approx(1 - right)}
    assert {result.rollout.artifact["prompt"] for result in labelled} == asked
    assert not any(result.is_trainable for result in labelled)
    assert arena.played == 0
    assert not asked & {request.artifact["prompt"] for request in task.requests(arena, 400)}


def test_a_file_to_measure_on_takes_the_place_of_a_share(path, tmp_path):
    first = next(iter(KEYS))
    (tmp_path / "test.jsonl").write_text(json.dumps({"question": first, "answer": "#### 11"}))
    parts = load_task("gsm8k", {"path": path, "evaluation": str(tmp_path / "test.jsonl")}).parts
    assert [example.prompt for example in parts.held_out] == [first]
    assert len(parts.train) == len(KEYS) - 1
    assert parts.repeated == 1


def test_a_missing_package_is_told_before_a_model_is_loaded(monkeypatch):
    monkeypatch.setattr("tasks.answering.find_spec", lambda name: None)
    with pytest.raises(TaskError, match=r"openai/gsm8k: .* pip install 'selfplay-tui\[data\]'"):
        load_task("gsm8k", {})


def test_the_hub_is_not_asked_before_a_run_begins():
    assert load_task("gsm8k", {}).evaluation == "split:test"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"question": "x", "solution": "#### 1"}], "line 1: no column 'answer'; there are: question, solution"),
        ([{"question": "x", "answer": "1"}] * 2, "column 'answer' ends in no number behind ####"),
        ([], "no rows"),
    ],
)
def test_a_file_of_another_kind_is_named_with_its_line(tmp_path, rows, said):
    rows = rows and [*rows, *({"question": f"{i}", "answer": "#### 1"} for i in range(9))]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(TaskError, match=said):
        load_task("gsm8k", {"path": str(tmp_path / "a.jsonl"), "held_out": 0.3})


async def test_three_steps(path, tmp_path):
    steps = await three_steps(
        "gsm8k-smollm2", tmp_path / "runs", f"task.options.path={path}", "task.options.samples=4",
        "roles.Solver.max_tokens=8",
    )  # fmt: skip
    assert [step["illegal"] for step in steps] == [4.0] * 3
