"""Asking a person: who waits and who doesn't, and the many ways in which no answer comes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine import Arena, Episode, EpisodeRequest, Role, SingleTurnEpisode
from engine import humans as humans_module
from engine.events import HumanAnswered, HumanAsked
from engine.humans import OPEN
from engine.inference.scripted import ScriptedClient


class Asks(Episode):
    """Asks a person, then a model; what was answered is in its extras."""

    def __init__(self, **how: Any) -> None:
        super().__init__()
        self.how = how

    async def rollout(self, arena, artifact, state):
        state.data["answer"] = await arena.ask_human(f"Which, {artifact}?", **self.how)
        await self.call_model("Speaker", "well?", arena)
        return state

    def get_extras(self, state):
        return state.data


class Talks(SingleTurnEpisode):
    """Speaks three times and asks nobody."""

    role = "Speaker"

    def prompt(self, artifact):
        return "and?"

    async def rollout(self, arena, artifact, state):
        for _ in range(3):
            state = await super().rollout(arena, artifact, state)
        return state


def arena_of(*, there: bool = True, **how: Any) -> tuple[Arena, list[Any]]:
    events: list[Any] = []
    arena = Arena(ScriptedClient(lambda *_: "ok", lockstep=True), on_event=events.append)
    arena.add_role(Role("Speaker"))
    arena.add_episode("asks", Asks(**how))
    arena.add_episode("talks", Talks())
    arena.humans.attended = there
    return arena, events


async def settled() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


async def begun(arena: Arena, *kinds: str) -> asyncio.Task[list[Any]]:
    requests = [EpisodeRequest(kind, i) for i, kind in enumerate(kinds)]
    playing = asyncio.create_task(arena.generate_rollouts(requests))
    await settled()
    return playing


def answers(results: list[Any]) -> list[str | None]:
    return [result.rollout.extras["answer"] for result in results]


async def test_others_play_to_their_end_while_one_waits_for_a_person():
    arena, events = arena_of(choices=["left", "right"], about=["a text"])
    playing = await begun(arena, "asks", "talks")
    assert arena.live == 1
    assert not playing.done()
    [question] = arena.humans.questions
    assert (question.rollout_id, question.text, question.choices) == ("0", "Which, 0?", ("left", "right"))
    assert question.about == ("a text",)
    arena.humans.answer(question.id, "right")
    asked, talked = await playing
    assert asked.rollout.extras == {"answer": "right"}
    assert len(asked.rollout.turns) == 1  # it went on: to be answered leaves nobody counted as waiting
    assert len(talked.rollout.turns) == 3
    assert [event.answer for event in events if isinstance(event, HumanAnswered)] == ["right"]


async def test_where_nobody_is_there_no_answer_comes_at_once_and_it_is_told_once():
    arena, events = arena_of(there=False)
    told: list[None] = []
    arena.humans.on_absent = lambda: told.append(None)
    assert answers(await arena.generate_rollouts([EpisodeRequest("asks")] * 3)) == [None] * 3
    assert len(told) == 1
    assert not [event for event in events if isinstance(event, HumanAsked)]


async def test_a_skipped_question_has_no_answer():
    arena, _ = arena_of()
    playing = await begun(arena, "asks")
    arena.humans.answer(arena.humans.questions[0].id, None)
    assert answers(await playing) == [None]


async def test_a_question_whose_time_is_over_has_no_answer():
    arena, events = arena_of(seconds=0.03)
    assert answers(await arena.generate_rollouts([EpisodeRequest("asks")] * 2)) == [None, None]
    assert arena.humans.questions == []
    assert sum(isinstance(event, HumanAnswered) for event in events) == 2


async def test_who_answers_has_time_for_the_next_and_in_a_pause_none_passes(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(humans_module.time, "monotonic", lambda: clock[0])
    arena, _ = arena_of(seconds=60.0)
    playing = await begun(arena, "asks", "asks")
    first, second = arena.humans.questions
    assert second.left == 60.0
    clock[0] += 50.0
    assert arena.humans.questions[1].left == 10.0
    arena.humans.answer(first.id, "this one")
    assert arena.humans.questions[0].left == 60.0
    clock[0] += 20.0
    arena.humans.pause()
    clock[0] += 1000.0
    assert arena.humans.questions[0].left == 40.0
    arena.humans.resume()
    clock[0] += 15.0
    assert arena.humans.questions[0].left == 25.0
    playing.cancel()


async def test_no_more_are_open_than_a_person_can_bear_and_the_others_come_in_their_order():
    arena, events = arena_of()
    playing = await begun(arena, *["asks"] * (OPEN + 3))
    assert [question.rollout_id for question in arena.humans.questions] == [str(i) for i in range(OPEN)]
    arena.humans.answer(arena.humans.questions[2].id, "yes")
    assert [question.rollout_id for question in arena.humans.questions][-1] == str(OPEN)
    assert sum(isinstance(event, HumanAsked) for event in events) == OPEN + 1
    while arena.humans.questions:
        arena.humans.answer(arena.humans.questions[0].id, "no")
    assert sorted(answers(await playing)) == ["no"] * (OPEN + 2) + ["yes"]


async def test_a_set_that_is_cancelled_takes_its_questions_along():
    arena, events = arena_of(seconds=None)
    playing = await begun(arena, *["asks"] * (OPEN + 1))
    playing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await playing
    await settled()
    assert arena.humans.questions == []
    assert arena.live == 0
    opened = [event.question.id for event in events if isinstance(event, HumanAsked)]
    assert {event.question.id for event in events if isinstance(event, HumanAnswered)} == set(opened)


async def test_whoever_leaves_leaves_the_questions_unanswered():
    arena, _ = arena_of(seconds=None)
    playing = await begun(arena, *["asks"] * (OPEN + 1))
    arena.humans.attended = False
    assert answers(await playing) == [None] * (OPEN + 1)


async def test_an_episode_may_stop_waiting_and_play_on():
    class Impatient(Asks):
        async def rollout(self, arena, artifact, state):
            try:
                await asyncio.wait_for(super().rollout(arena, artifact, state), 0.02)
            except TimeoutError:
                await self.call_model("Speaker", "then you", arena)
            return state

        def get_extras(self, state):
            return {"answer": None}

    arena, _ = arena_of(seconds=None)
    arena.add_episode("asks", Impatient())
    [result] = await asyncio.wait_for(arena.generate_rollouts([EpisodeRequest("asks")]), 5)
    assert [turn.messages[-1]["content"] for turn in result.rollout.turns] == ["then you"]
    assert arena.humans.questions == []


@pytest.mark.parametrize("answer", ["up", "", "Left", " "])
async def test_an_answer_that_is_no_choice_is_refused_and_the_question_stays(answer):
    arena, _ = arena_of(choices=["left", "right"])
    playing = await begun(arena, "asks")
    [question] = arena.humans.questions
    with pytest.raises(ValueError, match="'left', 'right'"):
        arena.humans.answer(question.id, answer)
    assert arena.humans.questions
    arena.humans.answer(question.id, "left")
    with pytest.raises(KeyError, match="is over"):
        arena.humans.answer(question.id, "left")
    assert answers(await playing) == ["left"]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"choices": "yes"}, "choices wants texts in a list"),
        ({"choices": ["a", "a"]}, "different texts"),
        ({"choices": ["a", ""]}, "none of them empty"),
        ({"about": "text"}, "about wants texts in a list"),
        ({"seconds": 0.0}, "above 0"),
    ],
)
async def test_a_question_nobody_could_answer_is_the_episodes_fault(how, said):
    arena, _ = arena_of(**how)
    [result] = await arena.generate_rollouts([EpisodeRequest("asks")])
    assert said in (result.rollout.error or "")


async def test_outside_an_episode_nobody_can_be_asked():
    arena, _ = arena_of()
    with pytest.raises(RuntimeError, match="inside an episode"):
        await arena.ask_human("Well?")


async def test_a_task_among_several_asks_like_one_alone():
    arena, _ = arena_of()
    scope = arena.within("mixed")
    scope.add_role(Role("Speaker"))
    scope.add_episode("asks", Asks(choices=["yes", "no"]))
    playing = asyncio.create_task(arena.generate_rollouts([EpisodeRequest("mixed/asks"), EpisodeRequest("talks")]))
    await settled()
    assert arena.live == 1
    [question] = arena.humans.questions
    arena.humans.answer(question.id, "no")
    asked, _ = await playing
    assert asked.rollout.error is None
    assert asked.rollout.extras == {"answer": "no"}
