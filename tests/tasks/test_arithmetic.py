"""Arithmetic: right is right, what is held out is never trained on, and options are checked."""

from __future__ import annotations

import itertools
import operator
import random

import pytest

from engine import Arena, Rollout, TaskError
from engine.inference.scripted import ScriptedClient
from engine.task import load_task
from tasks.arithmetic import Arithmetic, right

ORACLE = {"+": operator.add, "-": operator.sub, "*": operator.mul}


@pytest.mark.parametrize(
    ("reply", "answer", "worth"),
    [
        ("68", 68, 1), ("23 + 45 = 68.", 68, 1), ("-4", -4, 1), ("It is −4", -4, 1), ("1,024", 1024, 1),
        ("68 or 69", 68, 0), ("none", 0, 0), ("", 0, 0), ("7.5", 5, 0), ("9" * 5000, 9, 0),
    ],
)  # fmt: skip
def test_the_answer_is_the_last_number(reply, answer, worth):
    rollout = Rollout("0", "problem", (answer, "+", 0), extras={"reply": reply})
    assert right(rollout, Arena()) == {"Solver": worth}


@pytest.mark.parametrize("digits", [1, 2, 3])
@pytest.mark.parametrize("operators", ["+", "+-", "*"])
def test_nothing_held_out_or_shown_is_trained_on(digits, operators):
    task = Arithmetic(operators=operators, digits=digits, samples=2, examples=3)
    arena = Arena(seed=3)
    task.setup(arena)
    trained = {tuple(artifact.data) for artifact in arena.stores["problems"]}
    assert trained
    assert not trained & {*task.held_out, *task.examples}
    turned = {(b, sign, a) for a, sign, b in trained if sign != "-"}  # 2 + 3 tells what 3 + 2 is
    assert not turned & {*task.held_out, *task.examples}
    assert not set(task.held_out) & set(task.examples)
    for a, sign, b in [*trained, *task.held_out]:
        assert sign in operators
        assert 0 <= min(a, b) <= max(a, b) < 10**digits


def test_held_out_problems_are_the_same_whatever_the_seed():
    assert Arithmetic().held_out == Arithmetic(samples=4).held_out


@pytest.mark.parametrize(("n", "groups"), [(12, [4, 4, 4]), (10, [4, 4, 2]), (3, [3]), (4, [4])])
def test_a_step_asks_each_problem_as_often_as_it_has_samples_and_never_more_than_it_is_to(n, groups):
    task, arena = Arithmetic(samples=4), Arena()
    task.setup(arena)
    artifacts = [request.artifact for request in task.requests(arena, n)]
    assert [len(list(members)) for _, members in itertools.groupby(artifacts)] == groups


def test_an_operator_named_twice_is_one():
    """With what it has there are 100 problems: taken for 200, half of them would be all."""
    task, arena = Arithmetic(operators="++", digits=1, examples=3), Arena()
    task.setup(arena)
    assert task.held_out == Arithmetic(operators="+", digits=1, examples=3).held_out
    assert len(list(arena.stores["problems"])) > 20


@pytest.mark.parametrize("operators", ["+-", "*"])
def test_every_answer_is_among_those_a_constrained_role_may_give(operators):
    task, arena = Arithmetic(operators=operators), Arena()
    task.setup(arena)
    answers = set(arena.episodes["problem"].answers)
    assert {str(ORACLE[sign](a, b)) for a, sign, b in task.held_out} <= answers


async def test_accuracy_is_the_share_of_right_answers():
    task = Arithmetic(examples=2)
    rng = random.Random(0)
    wrong = set(rng.sample(task.held_out[:40], 10))

    def solve(messages):
        a, sign, b = messages[-1]["content"].removeprefix("What is ").rstrip("?").split()
        question = int(a), sign, int(b)
        assert len(messages) == 5  # two worked examples before it
        return str(ORACLE[sign](question[0], question[2]) + (question in wrong))

    arena = Arena(ScriptedClient(lambda messages, *_: solve(messages)))
    task.setup(arena)
    metrics = await task.evaluate(arena, 40, "eval")
    full = [q for q in task.held_out[:40] if q[0] > 9 and q[2] > 9]
    assert metrics["accuracy"] == metrics["sampled"] == 0.75
    assert metrics["hardest"] == pytest.approx(sum(q not in wrong for q in full) / len(full))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"operators": "/"}, "operators"),
        ({"operators": ""}, "operators"),
        ({"digits": 0}, "digits"),
        ({"samples": 2.5}, "samples"),
        ({"examples": -1}, "examples"),
        ({"digits": True}, "digits"),
        ({"operators": ["+"]}, "operators"),
        ({"digits": 4, "operators": "+*"}, "99,980,002 possible answers; up to 1,000,000"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(options, said):
    with pytest.raises(TaskError, match=said):
        load_task("arithmetic", options)
