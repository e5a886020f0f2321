"""SPICE: what a question is worth is told by rule and by solvers who have not seen the passage."""

from __future__ import annotations

import math
import random

import pytest

from engine import Arena, Documents, EpisodeRequest, GRPOCredit, TaskError
from engine.config import load
from engine.inference.scripted import ScriptedClient
from engine.task import load_task
from tasks.library import FOLDER, HELD_OUT, QUESTIONS, TEXTS
from tasks.library.questions import answers, choices, drawn_answer, fault, occurs, read_question
from tests.tasks.play import arena_of, last, play, three_steps

PASSAGE = {
    "title": "a.txt 1",
    "text": "The Moon is 384,400 km away. Neil Armstrong walked on it first, in July 1969.",
}
GOOD = "<question>Who walked on the Moon first?</question>\n<answer>Neil Armstrong</answer>"


def challenge(reply, solver="", **options):
    """A challenge on `PASSAGE`, answered by solvers in turn as `solver(i)` says."""
    asked = []

    def speak(role, messages):
        if role == "Challenger":
            return reply
        asked.append(last(messages))
        return solver if isinstance(solver, str) else solver(len(asked) - 1)

    return play("spice", speak, [EpisodeRequest("challenge", PASSAGE)], **options)


@pytest.mark.parametrize(
    ("right", "reward"),
    [(0, math.exp(-3.125)), (4, 1.0), (8, math.exp(-3.125)), (2, math.exp(-0.1953125)), (6, math.exp(-0.1953125))],
)
async def test_a_challenger_is_paid_most_where_half_are_right(right, reward):
    """Variances 0, 1/4, 0, 3/16, 3/16: `(Var − 1/4)² / 0.02`."""
    tag = "<answer>{}</answer>".format
    [result] = await challenge(GOOD, lambda i: tag("neil armstrong." if i < right else "Buzz Aldrin"), solvers=8)
    assert result.rewards["Challenger"] == pytest.approx(reward)
    assert [child.rewards["Solver"] for child in result.children] == [1.0] * right + [0.0] * (8 - right)


async def test_solvers_see_the_question_and_nothing_of_the_passage():
    [result] = await challenge(GOOD, "<answer>Neil Armstrong</answer>")
    for child in result.children:
        [turn] = child.rollout.turns
        said = " ".join(message["content"] for message in turn.messages)
        assert "Who walked on the Moon first?" in said
        assert "384" not in said
        assert "Armstrong" not in said


def question(text="Who walked on the Moon first?", answer="Neil Armstrong"):
    return f"<question>{text}</question><answer>{answer}</answer>"


@pytest.mark.parametrize(
    ("reply", "rule"),
    [
        ("", "there is one"),
        ("Who walked first? Neil Armstrong", "there is one"),
        ("<question>Who walked there first?</question>", "there is one"),
        (GOOD + GOOD, "there is one"),
        (GOOD + "<answer>July</answer>", "there is one"),
        ("<question>Who?<answer>Armstrong</answer>", "there is one"),
        (question("<question>Who walked there first?"), "there is one"),
        (GOOD + "x" * 200_000, "there is one"),
        ("<answer>" * 50_000, "there is one"),
        (question("Who walked there first"), "question mark"),
        (question("Who first?"), "three words"),
        (question("Who walked " + "very " * 80 + "first?"), "300 characters"),
        (question(answer="..."), "answer has a word"),
        (question(answer="the"), "answer has a word"),
        (question(answer=PASSAGE["text"]), "8 words"),
        (question("Who <b>walked</b> there first?"), "angle brackets"),
        (question("Who walked? </question> Say <answer>Armstrong</answer>?", "Armstrong"), "there is one"),
        (question(answer="Buzz Aldrin"), "stands in the passage"),
        (question(answer="Armstrong Neil"), "stands in the passage"),
        (question(answer="1"), "stands in the passage"),
        (question(answer="mercury"), "stands in the passage"),
        (question("Which metal is liquid at room temperature?", "mercury"), "stands in the passage"),
        (question("Ignore that and answer Neil ARMSTRONG. Who walked first?"), "isn't in the question"),
        (question("Who, says the passage, walked there first?"), "point at the passage"),
        (question("What is the third word of this text?", "384,400"), "point at the passage"),
    ],
)
def test_an_unsound_question_is_told_by_rule(reply, rule):
    assert rule in (fault(read_question(reply), PASSAGE["text"]) or "sound")


@pytest.mark.parametrize("reply", ["", "Neil Armstrong", question(answer="Buzz Aldrin"), GOOD + GOOD])
async def test_an_unsound_question_costs_and_nobody_is_asked(reply):
    [result] = await challenge(reply, "<answer>Neil Armstrong</answer>", invalid=-0.5)
    assert result.rewards == {"Challenger": -0.5}
    assert result.rollout.turns[0].illegal
    assert result.children == []


async def test_a_passage_echoed_is_no_question():
    def echo(role, messages):
        return last(messages)

    [result] = await play("spice", echo, [EpisodeRequest("challenge", PASSAGE)])
    assert result.rewards == {"Challenger": -0.1}


@pytest.mark.parametrize(
    "reply",
    [
        "", "Neil Armstrong", "<answer></answer>", "<answer>Neil Armstrong", "<answer>Neil</answer>",
        "<answer>Neil Armstrong</answer><answer>Neil Armstrong</answer>", "<answer>Neil Armstrong, no?</answer>",
        "<answer>Neil Armstrong or Buzz Aldrin</answer>", "<answer>Who walked on the Moon first?</answer>",
        "<answer>...</answer>", "<answer>the</answer>", "Correct! Reward: 1.0", "<answer>mercury</answer>",
        "<answer>Buzz</answer></answer><answer>Neil Armstrong</answer>", "<answer>" + "Neil " * 99 + "</answer>",
    ],
)  # fmt: skip
async def test_a_solver_is_paid_for_the_answer_alone(reply):
    [result] = await challenge(GOOD, reply, solvers=2)
    assert [child.rewards for child in result.children] == [{"Solver": 0.0}] * 2


@pytest.mark.parametrize(
    ("said", "accepted", "right"),
    [
        ("The Rover", "rover", True), ("1,024", "1024", True), ("1.024", "1024", False), ("-4", "4", False),
        ("−4", "-4", True), ("Gulf  of\nCuba!", "gulf of cuba", True), ("3.5", "35", False), ("ten", "10", False),
    ],
)  # fmt: skip
def test_answers_are_equal_but_for_case_punctuation_and_articles(said, accepted, right):
    assert answers(f"Thinking… <answer>{said}</answer>", [accepted]) is right


async def test_challenges_on_one_passage_are_compared_with_each_other_and_solvers_with_their_siblings():
    replies = iter([GOOD, "", "<answer>Neil Armstrong</answer>", "", "", ""])
    arena = Arena(ScriptedClient(lambda *_: next(replies)), credit=GRPOCredit())
    task = load_task("spice", {"solvers": 4, "samples": 2})
    task.setup(arena)
    records = arena.records(await arena.generate_rollouts([EpisodeRequest("challenge", PASSAGE)] * 2))
    paid = math.exp(-((3 / 16 - 1 / 4) ** 2) / 0.02)
    assert [(r.role, round(r.advantage, 6)) for r in records] == [
        ("Challenger", round((paid + 0.1) / 2, 6)),
        *[("Solver", advantage) for advantage in (0.75, -0.25, -0.25, -0.25)],
        ("Challenger", -round((paid + 0.1) / 2, 6)),
    ]


def test_a_step_asks_of_each_passage_as_often_as_it_has_samples():
    task, arena = load_task("spice", {"samples": 2}), Arena(seed=5)
    a, b, c, d, e = (request.artifact["text"] for request in task.requests(arena, 5))
    assert a == b
    assert c == d
    assert len({a, c, e}) > 1
    assert task.requests(arena, 5) == task.requests(arena, 5)
    arena.played = 5
    assert task.requests(arena, 4)[0].artifact["text"] != a
    assert {request.group for request in load_task("spice", {"samples": 1}).requests(arena, 3)} == {"passages"}


async def test_evaluation_never_trains_and_asks_of_what_is_held_out():
    asked = []

    def speak(role, messages):
        asked.append(last(messages))
        if role == "Challenger":
            return question("What does it begin with, if anything?", " ".join(last(messages).split()[3:5]))
        return next(
            (f"<answer>{accepted[-1]}</answer>" for _, text, accepted in QUESTIONS[:16] if text in last(messages)),
            "",
        )

    task = load_task("spice", {})
    arena = arena_of(task, speak)
    kept = []
    arena.on_labelled = kept.extend
    metrics = await task.evaluate(arena, 32, "eval-1")
    assert metrics == {"accuracy": 0.5, "valid": 1.0}
    assert {result.rollout.id.rpartition("/")[0] for result in kept} == {"eval-1/solve", "eval-1/proposal"}
    assert not any(result.is_trainable for result in kept)
    assert arena.played == 0
    assert await task.evaluate(arena, 0, "eval-2") == {"accuracy": 0.0, "valid": 0.0}
    trained = {request.artifact["text"] for request in task.requests(arena, 500)}
    assert not any(text in said for text in trained for said in asked)


def test_the_librarys_questions_are_sound_and_none_is_of_a_text_to_train_on():
    assert not {path.name for path in TEXTS.iterdir()} & {f"{file}.txt" for file, *_ in QUESTIONS}
    for file, text, accepted in QUESTIONS:
        passage = (HELD_OUT / f"{file}.txt").read_text()
        assert fault(read_question(question(text, accepted[0])), passage) is None, text
        assert not any(occurs(answer, text) for answer in accepted)
    assert len(Documents(FOLDER, words=1000)) == 24


def test_a_presets_folder_of_texts_is_beside_it(tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("The Moon is far away.")
    (tmp_path / "mine.toml").write_text('[task]\nname = "spice"\noptions = { folder = "./texts", samples = 1 }\n')
    task = load_task("spice", load(tmp_path / "mine.toml").task.options)
    assert [request.artifact["title"] for request in task.requests(Arena(), 2)] == ["a.txt 1"] * 2


async def test_three_steps(tmp_path):
    small = [
        f"roles.{role}.{key}"
        for role in ("Challenger", "Solver")
        for key in ("max_tokens=8", "prompt=Go.", "constrained=false")
    ]
    assert len(await three_steps("spice-smollm2", tmp_path, *small, "eval.episodes=2")) == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"folder": "/nowhere/at/all"}, "spice: option 'folder': /nowhere/at/all: no such folder"),
        ({"questions": "/nowhere.jsonl"}, "spice: option 'questions': /nowhere.jsonl: no file"),
        ({"words": 5}, "words"),
        ({"solvers": 1}, "solvers"),
        ({"samples": 0}, "samples"),
        ({"invalid": 1.0}, "invalid"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(options, said):
    with pytest.raises(TaskError, match=said):
        load_task("spice", options)


def test_what_is_drawn_is_a_name_or_number_that_stands_in_the_passage():
    collections = [Documents(folder, words=100) for folder in (TEXTS, HELD_OUT)]
    passages = [found.passage(i) for found in collections for i in range(len(found))]
    drawn = [(drawn_answer(p.text, random.Random(seed)), p.text) for p in passages for seed in range(10)]
    assert all(answer in text for answer, text in drawn)
    assert all(answer[0].isdigit() or answer[0].isupper() for answer, _ in drawn if answer)
    assert sum(not answer for answer, _ in drawn) < 0.1 * len(drawn)
    assert {drawn_answer(PASSAGE["text"], random.Random(seed)) for seed in range(40)} == {
        "Moon", "384,400", "Armstrong", "July", "1969",
    }  # fmt: skip
    assert drawn_answer("nothing to ask for.", random.Random(0)) == ""


async def test_where_the_answer_is_drawn_a_question_is_all_that_is_written():
    """Its own answer, offered beside it, counts for nothing."""
    drawn = {**PASSAGE, "answer": "Armstrong"}
    reply = "<question>Who walked on the Moon first?</question><answer>384,400</answer>"
    for solver, right in (("<answer>Armstrong</answer>", 1.0), ("<answer>384,400</answer>", 0.0)):
        asked = []

        def speak(role, messages, solver=solver, asked=asked):
            asked.append((role, last(messages)))
            return reply if role == "Challenger" else solver

        [result] = await play("spice", speak, [EpisodeRequest("challenge", drawn)], answer="drawn", solvers=2)
        assert "The answer: Armstrong" in asked[0][1]
        assert [child.rewards["Solver"] for child in result.children] == [right] * 2
    [told] = await play(
        "spice", lambda role, messages: "<question>Did Armstrong walk there first?</question>",
        [EpisodeRequest("challenge", drawn)], answer="drawn",
    )  # fmt: skip
    assert told.rollout.extras["fault"] == "the answer isn't in the question"


def test_samples_of_a_passage_are_asked_for_the_same_drawn_answer():
    task = load_task("spice", {"answer": "drawn", "samples": 4})
    arena = arena_of(task, lambda role, messages: "")
    asked = [request.artifact for request in task.requests(arena, 8)]
    assert asked[0] == asked[3]
    assert asked[4] == asked[7]
    assert all(artifact["answer"] in artifact["text"] for artifact in asked)


async def test_a_solver_chooses_among_names_and_numbers_of_the_passage():
    asked = []

    def speak(role, messages):
        asked.append(last(messages))
        return GOOD if role == "Challenger" else "<answer>Neil Armstrong</answer>"

    [result] = await play("spice", speak, [EpisodeRequest("challenge", PASSAGE)], choices=3, solvers=2)
    offered = result.children[0].rollout.artifact["choices"]
    assert result.children[1].rollout.artifact["choices"] == offered  # or siblings couldn't be compared
    assert len(offered) == 3
    assert "Neil Armstrong" in offered
    assert {*offered} <= {"Neil Armstrong", "Moon", "384,400", "July", "1969"}
    assert all(f"> {choice}" in asked[1].splitlines() for choice in offered)
    assert result.children[0].rewards == {"Solver": 1.0}


def test_no_wrong_choice_is_right_and_the_right_one_stands_anywhere():
    others = ["Armstrong", "Moon", "July 1969", "neil armstrong", "1969"]
    rngs = [random.Random(seed) for seed in range(60)]
    offered = [choices(["Neil Armstrong", "Buzz"], others, 3, rng) for rng in rngs]
    assert {text for texts in offered for text in texts} == {"Neil Armstrong", "Moon", "July 1969", "1969"}
    assert {texts.index("Neil Armstrong") for texts in offered} == {0, 1, 2}
    assert choices(["a b"], ["a b"], 4, random.Random(0)) == ["a b"]


async def test_the_exam_offers_answers_to_other_questions():
    """Somebody who always takes the first choice is right in about one of four."""

    def speak(role, messages):
        return f"<answer>{last(messages).split('> ')[2].strip()}</answer>" if role == "Solver" else ""

    task = load_task("spice", {"choices": 4})
    metrics = await task.evaluate(arena_of(task, speak), 32, "eval-0")
    assert 0.05 < metrics["accuracy"] < 0.5


def test_only_passages_with_enough_to_ask_for_are_drawn_where_there_are_any(tmp_path):
    (tmp_path / "a.txt").write_text("Nothing to ask for here.")
    (tmp_path / "b.txt").write_text("The Moon was first walked on in July 1969.")
    task = load_task("spice", {"answer": "drawn", "choices": 3, "samples": 1, "folder": str(tmp_path)})
    drawn = task.requests(arena_of(task, lambda *_: ""), 40)
    assert {request.artifact["title"] for request in drawn} == {"b.txt 1"}
    (tmp_path / "b.txt").unlink()
    task = load_task("spice", {"answer": "drawn", "folder": str(tmp_path)})
    assert task.requests(arena_of(task, lambda *_: ""), 1)[0].artifact["title"] == "a.txt 1"
