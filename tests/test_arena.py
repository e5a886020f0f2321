"""The arena: who may act when, what enters training, and what a failing task costs."""

from __future__ import annotations

import asyncio

import pytest

from engine import (
    BASE,
    POLICY,
    Arena,
    ChatEpisode,
    Completion,
    Episode,
    EpisodeRequest,
    Role,
    Rubric,
    SingleTurnEpisode,
)
from engine.events import EpisodeFinished, EpisodeStarted, TokensSampled, TurnFinished, TurnStarted
from engine.types import EngineError, Sampling


class WavesClient:
    """Answers everything asked since the last flush at once, and remembers each such wave."""

    def __init__(self, answer=lambda messages, player: "ok"):
        self.settle = None
        self.answer = answer
        self.waves: list[list[tuple[str, int]]] = []
        self._asked = []

    def submit(self, messages, sampling, player, key, *, on_tokens=None, on_done=None):
        future = asyncio.get_running_loop().create_future()
        self._asked.append((messages, player, key, on_tokens, on_done, future))
        return future

    def forget(self):
        pass

    def flush(self):
        if self._asked:
            asked, self._asked = self._asked, []
            self.waves.append([(messages[-1]["content"], key) for messages, _, key, *_ in asked])
            asyncio.get_running_loop().call_soon(self._deliver, asked)

    def _deliver(self, asked):
        for messages, player, _, on_tokens, on_done, future in asked:
            if future.cancelled():
                continue
            try:
                text = self.answer(messages, player)
            except EngineError as error:
                on_done() if on_done else None
                future.set_exception(error)
                continue
            if on_tokens:
                on_tokens([1, 2], [-0.1, -0.2])
            if on_done:
                on_done()
            future.set_result(Completion(text, [0], [1, 2], [-0.1, -0.2], [0, 0], player=player))
        if self.settle:
            self.settle()


class Ask(SingleTurnEpisode):
    role = "A"
    rubric = Rubric([lambda rollout, arena: {"A": 1.0}])

    def prompt(self, artifact):
        return str(artifact)


class AskTimes(Episode):
    """Asks as often as its artifact says."""

    async def rollout(self, arena, artifact, state):
        for i in range(artifact):
            await self.call_model("A", f"{i}", arena)
        return state


class Spawn(Episode):
    """Asks, spawns episodes of different lengths, and asks again."""

    async def rollout(self, arena, artifact, state):
        await self.call_model("A", "before", arena)
        state.child_results = await arena.generate_rollouts([EpisodeRequest("times", n) for n in artifact])
        await self.call_model("A", "after", arena)
        return state


def arena_of(client, **episodes) -> Arena:
    arena = Arena(client)
    arena.add_role(Role("A", system_prompt="Be A."))
    for name, episode in episodes.items():
        arena.add_episode(name, episode)
    return arena


def asked(client: WavesClient) -> list[list[str]]:
    return [[content for content, _ in wave] for wave in client.waves]


async def test_the_device_is_let_go_only_when_every_episode_waits():
    client = WavesClient()
    await arena_of(client, times=AskTimes()).generate_rollouts([EpisodeRequest("times", n) for n in (1, 3, 2)])
    assert asked(client) == [["0", "0", "0"], ["1", "1"], ["2"]]


async def test_the_last_child_hands_over_to_its_parent():
    client = WavesClient()
    arena = arena_of(client, times=AskTimes(), spawn=Spawn())
    await arena.generate_rollouts([EpisodeRequest("spawn", (1, 2)), EpisodeRequest("spawn", (3,))])
    waves = [sorted(wave) for wave in asked(client)]
    assert waves == [["before"] * 2, ["0", "0", "0"], ["1", "1"], ["2", "after"], ["after"]]


async def test_questions_asked_at_once_are_answered_in_one_wave():
    class Twice(Episode):
        async def rollout(self, arena, artifact, state):
            await asyncio.gather(*(self.call_model("A", text, arena) for text in ("x", "y")))
            await self.call_model("A", "z", arena)
            return state

    client = WavesClient()
    result = await arena_of(client, twice=Twice()).run_episode("twice")
    assert asked(client) == [["x", "y"], ["z"]]
    assert [turn.index for turn in result.rollout.turns] == [0, 1, 2]


async def test_request_keys_depend_on_the_place_in_the_run_alone():
    alone, crowded = WavesClient(), WavesClient()
    await arena_of(alone, times=AskTimes()).generate_rollouts([EpisodeRequest("times", 2)])
    await arena_of(crowded, times=AskTimes()).generate_rollouts([EpisodeRequest("times", n) for n in (2, 4, 1)])
    assert [wave[0][1] for wave in alone.waves] == [wave[0][1] for wave in crowded.waves[:2]]
    keys = [key for wave in crowded.waves for _, key in wave]
    assert len(set(keys)) == len(keys) == 7


async def test_a_pruned_subtree_trains_nowhere():
    arena = arena_of(WavesClient(), times=AskTimes(), spawn=Spawn())
    result = (await arena.generate_rollouts([EpisodeRequest("spawn", (1,), is_trainable=False)]))[0]
    assert [node.is_trainable for node in result.walk()] == [False, False]
    assert arena.records([result]) == []


async def test_only_the_live_policys_turns_train():
    arena = arena_of(WavesClient(), ask=Ask())
    request = EpisodeRequest("ask", players={"A": BASE})
    against, own = await arena.generate_rollouts([request, EpisodeRequest("ask")])
    assert [turn.trainable for turn in against.rollout.turns + own.rollout.turns] == [False, True]
    assert (against.rollout.players, own.rollout.players) == ({"A": BASE}, {"A": POLICY})


async def test_a_stand_in_speaks_where_the_policy_would_and_for_nobody_else():
    speakers = []
    arena = arena_of(WavesClient(lambda messages, player: speakers.append(player) or "ok"), ask=Ask())
    requests = [EpisodeRequest("ask"), EpisodeRequest("ask", players={"A": "someone"}), EpisodeRequest("ask")]
    with arena.standing_in("average"):
        results = await arena.generate_rollouts(requests)
    assert speakers == ["average", "someone", "average"]
    assert [result.rollout.players for result in results] == [{"A": player} for player in speakers]
    assert arena.records(results) == []
    await arena.run_episode("ask")
    assert speakers[-1] == POLICY


async def test_a_stand_in_is_none_for_episodes_that_go_on_beside():
    """Rollouts are played ahead while an evaluation is under way."""
    speakers = []
    arena = arena_of(WavesClient(lambda messages, player: speakers.append(player) or "ok"), times=AskTimes())
    ahead = asyncio.create_task(arena.generate_rollouts([EpisodeRequest("times", 3)]))
    with arena.standing_in("average"):
        await arena.generate_rollouts([EpisodeRequest("times", 2)], label="eval-0")
    [result] = await ahead
    assert result.rollout.players == {"A": POLICY}
    assert sorted(speakers) == ["average"] * 2 + [POLICY] * 3


async def test_a_stand_in_is_the_one_that_is_scored():
    client = Recording()
    arena = arena_of(client, ask=Ask())
    with arena.standing_in("average"):
        await arena.score("x", ["y"], "A")
    await arena.score("x", ["y"], "A")
    assert client.players == ["average", POLICY]


async def test_a_labelled_set_neither_trains_nor_counts_nor_moves_baselines():
    arena = arena_of(WavesClient(), ask=Ask())
    seen = []
    arena.on_labelled = seen.extend
    results = await arena.generate_rollouts([EpisodeRequest("ask")] * 2, label="eval-0")
    assert [result.rollout.id for result in results] == ["eval-0/0", "eval-0/1"]
    assert arena.records(results) == []
    assert (arena.played, arena.credit.state(), len(seen)) == (0, {"baselines": {}}, 2)


async def test_a_failing_episode_costs_itself_alone():
    class Fails(Episode):
        async def rollout(self, arena, artifact, state):
            await self.call_model("A", "x", arena)
            raise ValueError("no such square")

    arena = arena_of(WavesClient(), ask=Ask(), fails=Fails())
    results = await arena.generate_rollouts([EpisodeRequest("fails"), EpisodeRequest("ask")])
    assert [result.rollout.error for result in results] == ["ValueError: no such square", None]
    assert [record.rollout_id for record in arena.records(results)] == ["1"]


async def test_a_failing_child_leaves_its_parent_playing():
    arena = arena_of(WavesClient(), times=AskTimes(), spawn=Spawn())
    result = await arena.run_episode("spawn", ("not a number", 1))
    assert result.rollout.error is None
    assert result.children[0].rollout.error is not None
    assert result.children[1].rollout.error is None


async def test_a_failing_engine_stops_everything():
    def broken(messages, player):
        raise EngineError("the device is gone")

    with pytest.raises(EngineError, match="device is gone"):
        await arena_of(WavesClient(broken), ask=Ask()).generate_rollouts([EpisodeRequest("ask")] * 3)


async def test_a_verdict_that_cannot_be_read_is_no_reward():
    arena = arena_of(WavesClient(), ask=Ask(Rubric([lambda rollout, arena: None])))
    result = await arena.run_episode("ask")
    assert result.rewards == {}
    assert result.rollout.unscored == "<lambda>"
    assert arena.records([result]) == []


async def test_rewards_are_summed_by_weight_and_kept_apart():
    def length(rollout, arena):
        return {"A": 2.0}

    async def manners(rollout, arena):
        return {"A": 1.0, "B": 4.0}

    arena = arena_of(WavesClient(), ask=Ask(Rubric([length, manners], weights=[0.5, 3.0])))
    result = await arena.run_episode("ask")
    assert result.rewards == {"A": 4.0, "B": 12.0}
    assert result.rollout.breakdown == {"length": {"A": 2.0}, "manners": {"A": 1.0, "B": 4.0}}


async def test_an_edit_reaches_the_next_tree_and_never_half_of_one():
    client = WavesClient()
    arena = arena_of(client, times=AskTimes(), spawn=Spawn())

    def edit_while_playing(messages, player):
        if messages[-1]["content"] == "before":
            arena.add_role(Role("A", system_prompt="Be someone else."))
            arena.edits["A"] = 1
        return "ok"

    client.answer = edit_while_playing
    first, second = await arena.run_episode("spawn", (1,)), await arena.run_episode("times", 1)
    prompts = {turn.messages[0]["content"] for node in first.walk() for turn in node.rollout.turns}
    assert prompts == {"Be A."}
    assert second.rollout.turns[0].messages[0]["content"] == "Be someone else."
    assert ([node.rollout.edits for node in first.walk()], second.rollout.edits) == ([{"A": 0}] * 2, {"A": 1})


async def test_an_episode_that_is_cancelled_leaves_the_arena_playable():
    client = WavesClient()
    arena = arena_of(client, times=AskTimes(), spawn=Spawn())
    client.flush = lambda: None
    playing = asyncio.create_task(
        arena.generate_rollouts([EpisodeRequest("spawn", (2,)), EpisodeRequest("times", 5)])
    )
    await asyncio.sleep(0.01)
    playing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await playing
    del client.flush
    client._asked.clear()
    assert arena.live == 0
    await arena.run_episode("times", 2)
    assert asked(client) == [["0"], ["1"]]


async def test_watchers_see_an_episode_from_its_start_to_its_end():
    events = []
    arena = arena_of(WavesClient(), ask=Ask())
    arena.on_event = events.append
    await arena.run_episode("ask", "why?")
    assert [type(event) for event in events] == [
        EpisodeStarted,
        TurnStarted,
        TokensSampled,
        TurnFinished,
        EpisodeFinished,
    ]


async def test_each_speaker_in_a_chat_hears_the_others_as_the_user():
    class Chat(ChatEpisode):
        roles = ("A", "B", "C")
        max_turns = 4

        def opening(self, artifact, state):
            return "Talk."

    heard = []

    def answer(messages, player):
        heard.append([(message["role"], message["content"]) for message in messages])
        return f"line {len(heard)}"

    arena = Arena(WavesClient(answer))
    for role in "ABC":
        arena.add_role(Role(role))
    arena.add_episode("chat", Chat())
    await arena.run_episode("chat")
    assert heard[2] == [("user", "Talk.\n\nline 1\n\nline 2")]
    assert heard[3] == [("user", "Talk."), ("assistant", "line 1"), ("user", "line 2\n\nline 3")]


async def test_unknown_names_say_what_there_is():
    arena = arena_of(WavesClient(), ask=Ask())
    with pytest.raises(KeyError, match=r"no episode 'aks'.*there are: ask"):
        await arena.run_episode("aks")
    with pytest.raises(RuntimeError, match="inside an episode"):
        await arena.call_model("hello", "A")


async def test_an_oracle_is_the_base_model_and_leaves_no_turn():
    players = []

    class Consults(Episode):
        async def rollout(self, arena, artifact, state):
            await arena.call_model("Judge this.", temperature=0.0)
            return state

    arena = arena_of(WavesClient(lambda messages, player: players.append(player) or "fine"), consults=Consults())
    result = await arena.run_episode("consults")
    assert players == [BASE]
    assert result.rollout.turns == []


class Recording(WavesClient):
    """Remembers how it was asked to sample."""

    def __init__(self):
        super().__init__()
        self.samplings: list[Sampling] = []
        self.scored: list[Sampling] = []
        self.players: list[str] = []

    def submit(self, messages, sampling, player, key, **callbacks):
        self.samplings.append(sampling)
        return super().submit(messages, sampling, player, key, **callbacks)

    async def score(self, messages, replies, sampling, player):
        self.scored.append(sampling)
        self.players.append(player)
        return [0.0] * len(replies)


class Asks(Episode):
    """Asks once, with the keywords it is given."""

    def __init__(self, **keywords):
        super().__init__()
        self.keywords = keywords

    async def rollout(self, arena, artifact, state):
        await self.call_model("A", "?", arena, **self.keywords)
        return state


async def sampling_of(role: Role, **keywords) -> Sampling:
    client = Recording()
    arena = Arena(client)
    arena.add_role(role)
    arena.add_episode("asks", Asks(**keywords))
    result = await arena.run_episode("asks")
    if result.rollout.error:
        raise ValueError(result.rollout.error)
    return client.samplings[0]


async def test_legal_answers_limit_the_replies_of_a_constrained_role_alone():
    legal = ["[1]", "[2]"]
    assert (await sampling_of(Role("A"), legal=legal)).choices == ()
    assert (await sampling_of(Role("A", constrained=True), legal=legal)).choices == ("[1]", "[2]")
    assert (await sampling_of(Role("A", constrained=True))).choices == ()


async def test_choices_limit_the_reply_of_any_role():
    assert (await sampling_of(Role("A"), choices=["yes", "no"])).choices == ("yes", "no")
    both = await sampling_of(Role("A", constrained=True), legal=["a"], choices=["yes"])
    assert both.choices == ("yes",)


@pytest.mark.parametrize("choices", [[], (), "yes", None])
async def test_choices_without_a_text_are_refused_and_not_taken_for_none(choices):
    with pytest.raises(ValueError, match="choices wants at least one text in a list"):
        await sampling_of(Role("A"), choices=choices)


async def test_what_an_episode_overrides_is_kept_as_a_sampling_keeps_it():
    role = Role("A", stop=("x",), seconds=3.0, repetition_penalty=1.2)
    found = await sampling_of(role, stop=["END"], logit_bias={"yes": 2.0}, temperature=0.5)
    assert found == Sampling(
        temperature=0.5, stop=("END",), logit_bias=(("yes", 2.0),), seconds=3.0, repetition_penalty=1.2
    )


async def test_a_constrained_role_is_scored_among_the_replies():
    client = Recording()
    arena = Arena(client)
    arena.add_role(Role("A", constrained=True))
    arena.add_role(Role("B"))
    await arena.score("?", ["[1]", "[2]"], "A")
    await arena.score("?", ["[1]", "[2]"], "B")
    assert [sampling.choices for sampling in client.scored] == [("[1]", "[2]"), ()]


async def test_records_hold_what_was_allowed():
    arena = arena_of(WavesClient(), ask=Ask())
    results = await arena.generate_rollouts([EpisodeRequest("ask", "x")])
    results[0].rollout.turns[0].completion.allowed = [[1, 5], [2]]
    assert [record.allowed for record in arena.records(results)] == [[[1, 5], [2]]]
