"""Whole episodes over a real, tiny model: how little of what they ask has to be computed, and what ends them."""

from __future__ import annotations

from engine import Arena, ChatEpisode, EpisodeRequest, Role, Rubric
from engine.types import StopReason
from tests.inference.test_clients import Local

SENTENCES = ("I see. Go on.", "No, never!", "Yes: at the old mill.")


def spoken(rollout, arena) -> dict[str, float]:
    return {role: sum(len(turn.completion.text) for turn in rollout.turns if turn.role == role) for role in "AB"}


class Talk(ChatEpisode):
    """Each says one of three sentences, so that a reply is the same tokens when it is part of a prompt."""

    roles, max_turns = ("A", "B"), 12
    rubric = Rubric([spoken])

    def opening(self, artifact, state) -> str:
        return f"You meet in {artifact}."

    async def call_model(self, role_id, prompt, arena, **sampling):
        return await super().call_model(role_id, prompt, arena, choices=SENTENCES, **sampling)


def arena_of(local: Local, episode: ChatEpisode) -> Arena:
    arena = Arena(local.client)
    arena.add_role(Role("A", "You ask questions.", max_tokens=8))
    arena.add_role(Role("B", "You answer them.", max_tokens=8))
    arena.add_episode("talk", episode)
    return arena


async def test_groups_of_growing_chats_compute_a_quarter_of_what_they_ask_at_most(folder):
    async with Local(folder, lockstep=True, rows=16, context=512) as local:
        arena = arena_of(local, Talk())
        requests = [EpisodeRequest("talk", town) for town in ("Bergen", "Oslo", "Turku") for _ in range(8)]
        results = await arena.generate_rollouts(requests)
        stats = local.client.stats
    turns = [turn for result in results for turn in result.rollout.turns]
    assert len(turns) == 24 * 12
    assert stats.asked == sum(len(turn.completion.prompt_tokens) for turn in turns)
    assert stats.computed <= 0.25 * stats.asked
    assert all(turn.completion.text in SENTENCES for turn in turns)
    assert all(set(result.rewards) == {"A", "B"} for result in results)


async def test_a_context_that_is_full_ends_a_turn_and_the_rubric_sees_it(folder):
    async with Local(folder, lockstep=True, context=150) as local:
        arena = arena_of(local, Talk())
        [result] = await arena.generate_rollouts([EpisodeRequest("talk", "Bergen")])
    reasons = [turn.completion.stop_reason for turn in result.rollout.turns]
    full = reasons.index(StopReason.CONTEXT)
    assert 0 < full < 11
    assert set(reasons[:full]) == {StopReason.STOP}
    assert result.rollout.turns[-1].completion.stop_reason is StopReason.CONTEXT
    assert result.rollout.turns[-1].completion.tokens == []
    assert result.rollout.error is None
    assert result.rewards["A"] > 0
    said = {turn.index for turn in result.rollout.turns if turn.completion.tokens}
    assert {record.turn for record in arena.records([result])} == said  # what is empty teaches nothing


async def test_a_reply_that_ran_out_of_time_is_scored_as_what_it_is(folder):
    async with Local(folder, lockstep=True, context=256) as local:
        arena = arena_of(local, Talk())
        arena.add_role(Role("A", seconds=1e-9))
        [result] = await arena.generate_rollouts([EpisodeRequest("talk", "Bergen")])
    for turn in result.rollout.turns:
        if turn.role == "A":
            assert turn.completion.stop_reason is StopReason.DEADLINE
            assert turn.completion.text == ""
    assert result.rollout.error is None
    assert result.rewards["A"] == 0


async def test_the_same_set_played_again_is_the_same_to_the_last_bit_though_all_of_it_was_said_before(folder):
    async with Local(folder, lockstep=True, context=512) as local:
        arena = arena_of(local, Talk())
        requests = [EpisodeRequest("talk", town) for town in ("Bergen", "Oslo") for _ in range(3)]
        played, computed = [], []
        for _ in range(2):  # a label's episodes have the same random keys each time
            before = local.client.stats.computed
            results = await arena.generate_rollouts(requests, label="again")
            computed.append(local.client.stats.computed - before)
            played.append([turn.completion.logprobs for result in results for turn in result.rollout.turns])
    assert computed[0] == computed[1]
    assert played[0] == played[1]
