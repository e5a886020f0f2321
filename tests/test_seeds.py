"""The programs this project began with run as they were written, but for their imports."""

from __future__ import annotations

import itertools
from typing import Dict, List

import pytest

from engine import (
    Arena,
    ArtifactStore,
    Episode,
    EpisodeRequest,
    GRPOCredit,
    RAECredit,
    Role,
    Rollout,
    Rubric,
    SingleTurnEpisode,
    simple_training_loop,
)
from engine import Role as Actor
from engine.inference.scripted import ScriptedClient

# What the programs leave to the reader

prompt = "Ask something."


def parse_question(text: str) -> str:
    return text.strip()


def parse_winner(text: str) -> str:
    return text.strip()


def solved(rollout: Rollout, arena: Arena) -> Dict[str, float]:
    return {"Solver": 1.0 if rollout.turns[0].completion.text == "right" else 0.0}


class SolveEpisode(SingleTurnEpisode):
    role = "Solver"
    rubric = Rubric([solved])

    def prompt(self, artifact):
        return f"Solve: {artifact}"


def scripted(answers: Dict[str, List[str]]) -> ScriptedClient:
    """Whoever is asked something that contains a key answers with the key's next line, round and round."""
    lines = {key: itertools.cycle(texts) for key, texts in answers.items()}

    def reply(messages, player, rng):
        asked = messages[-1]["content"]
        return next(next(texts) for key, texts in lines.items() if key in asked)

    return ScriptedClient(reply)


# self_play_engine: hierarchical episodes


class ProposerEpisode(Episode):
    async def rollout(self, arena, artifact, state):
        # Generate a question
        response = await self.call_model("Proposer", prompt, arena)
        question = parse_question(response.text)

        # Spawn N solver attempts (Monte Carlo)
        requests = [EpisodeRequest("solve", question) for _ in range(8)]
        results = await arena.generate_rollouts(requests)
        state.child_results = results

        return state

    def get_extras(self, state):
        # Pass rate exposed to rubric
        wins = sum(1 for r in state.child_results if r.rewards.get("Solver", 0) > 0)
        return {"pass_rate": wins / len(state.child_results)}


# legos: the same, with solvers that do not train, and its rubric


class FrozenSolversEpisode(Episode):
    async def rollout(self, arena, artifact, state):
        # Generate a question
        response = await self.call_model("Proposer", prompt, arena)
        question = parse_question(response.text)

        # Spawn N solver attempts (Monte Carlo)
        requests = [EpisodeRequest("solve", question, is_trainable=False) for _ in range(8)]
        results = await arena.generate_rollouts(requests)
        state.child_results = results

        return state

    def get_extras(self, state):
        # Expose pass rate to rubric
        wins = sum(1 for r in state.child_results if r.rewards.get("Solver", 0) > 0)
        return {"pass_rate": wins / len(state.child_results)}


def goldilocks_reward(rollout: Rollout, arena: Arena) -> Dict[str, float]:
    """Reward proposer for 50% difficulty—not too easy, not too hard."""
    pass_rate = rollout.extras["pass_rate"]
    reward = 1.0 - 2 * abs(pass_rate - 0.5)
    return {"Proposer": reward}


rubric = Rubric([goldilocks_reward])


def proposer_arena(episode: type[Episode], solver_lines: List[str]) -> Arena:
    arena = Arena(scripted({"Ask something": ["What is 1 + 1?"], "Solve": solver_lines}), credit=GRPOCredit())
    arena.add_actor(Actor(id="Proposer", system_prompt="Generate challenging math problems...", temperature=0.9))
    arena.add_actor(Actor(id="Solver", system_prompt="Solve math problems step by step...", temperature=0.7))
    arena.add_episode("propose", episode(rubric))
    arena.add_episode("solve", SolveEpisode())
    return arena


@pytest.mark.parametrize(
    ("lines", "pass_rate", "reward"),
    [(["right", "wrong"], 0.5, 1.0), (["right"], 1.0, 0.0), (["wrong"], 0.0, 0.0)],
)
async def test_the_proposer_is_rewarded_for_half_solved_questions(lines, pass_rate, reward):
    result = await proposer_arena(ProposerEpisode, lines).run_episode("propose")
    assert result.rollout.extras == {"pass_rate": pass_rate}
    assert result.rewards == {"Proposer": reward}
    assert len(result.children) == 8


async def test_solvers_under_one_proposer_are_compared_with_each_other():
    arena = proposer_arena(ProposerEpisode, ["right", "wrong"])
    records = arena.records(await arena.generate_rollouts([EpisodeRequest("propose") for _ in range(2)]))
    solvers = [record for record in records if record.role == "Solver"]
    assert len(solvers) == 16
    assert {abs(record.advantage) for record in solvers} == {0.5}


async def test_solvers_that_do_not_train_inform_the_reward_but_stay_out_of_the_batch():
    arena = proposer_arena(FrozenSolversEpisode, ["right", "wrong"])
    arena.credit = RAECredit()
    results = [await arena.run_episode("propose")]
    assert results[0].rewards == {"Proposer": 1.0}
    assert {record.role for record in arena.records(results)} == {"Proposer"}


# LLM-as-judge


class DebateEpisode(Episode):
    async def rollout(self, arena, artifact, state):
        for role in ("Pro", "Con"):
            await self.call_model(role, "Argue.", arena)
        return state


judge_prompt = "Who won?"


async def llm_judge(rollout: Rollout, arena: Arena) -> Dict[str, float]:
    # Judge is NOT a role - no training data produced
    response = await arena.call_model(judge_prompt, temperature=0.3)
    winner = parse_winner(response.text)
    loser = "Con" if winner == "Pro" else "Pro"
    return {winner: 1.0, loser: -1.0}


async def test_a_judge_decides_and_never_trains():
    arena = Arena(scripted({"Argue": ["words"], "Who won": ["Con"]}))
    arena.add_role(Role(id="Pro"))
    arena.add_role(Role(id="Con"))
    arena.add_episode("debate", DebateEpisode(Rubric([llm_judge])))
    results = [await arena.run_episode("debate")]
    assert results[0].rewards == {"Con": 1.0, "Pro": -1.0}
    assert [record.role for record in arena.records(results)] == ["Pro", "Con"]


# Composable episode trees


class TournamentEpisode(Episode):
    async def rollout(self, arena, artifact, state):
        # Round 1: generate candidates
        candidates = await arena.generate_rollouts([EpisodeRequest("proposal", {}) for _ in range(8)])

        # Round 2: head-to-head debates
        for a, b in itertools.combinations(candidates, 2):
            battle = await arena.run_episode("debate", {"a": a, "b": b})
            state.child_results.append(battle)

        # Elo-like scoring from battle outcomes
        return state


async def test_a_tournament_keeps_every_round_in_one_tree():
    arena = Arena(scripted({"Argue": ["words"], "Who won": ["Pro", "Con"], "Solve": ["right"]}))
    for role in ("Pro", "Con", "Solver"):
        arena.add_role(Role(id=role))
    arena.add_episode("proposal", SolveEpisode())
    arena.add_episode("debate", DebateEpisode(Rubric([llm_judge])))
    arena.add_episode("tournament", TournamentEpisode())
    result = await arena.run_episode("tournament")
    kinds = [child.rollout.episode_type for child in result.children]
    assert kinds == ["proposal"] * 8 + ["debate"] * 28
    assert [child.rollout.id for child in result.children] == [f"0.{i}" for i in range(36)]


# Arena and artifact stores


class MyArena(Arena):
    def get_batch(self) -> List[EpisodeRequest]:
        # Define your training distribution
        samples = self.stores["questions"].sample(k=self.batch_size)
        return [EpisodeRequest("solve", s.data) for s in samples]


class CountingTrainer:
    def __init__(self):
        self.batches = []

    async def train(self, records):
        self.batches.append(records)
        return {"turns": float(len(records))}


class RedBlueEpisode(Episode):
    async def rollout(self, arena, artifact, state):
        await self.call_model("Attacker", "Attack.", arena)
        await self.call_model("Defender", "Defend.", arena)
        return state


async def test_an_arena_of_ones_own_trains_on_what_its_store_holds():
    arena, trainer = MyArena(scripted({"Solve": ["right", "wrong"]}), batch_size=4), CountingTrainer()
    arena.add_role(Role(id="Solver"))
    arena.add_episode("solve", SolveEpisode())
    arena.add_store("questions", ArtifactStore(["1 + 1", "2 + 2"]))

    # Run training
    metrics = await simple_training_loop(arena, trainer, num_steps=3)
    assert metrics == [{"turns": 4.0}] * 3
    assert {record.role for batch in trainer.batches for record in batch} == {"Solver"}


async def test_roles_and_episodes_register_as_written():
    arena = Arena(scripted({"Attack": ["boo"], "Defend": ["no"]}))
    # Register roles
    arena.add_role(Role(id="Attacker", system_prompt="Find vulnerabilities...", temperature=0.9))
    arena.add_role(Role(id="Defender", system_prompt="Patch the code...", temperature=0.7))

    # Register episode
    arena.add_episode("redblue", RedBlueEpisode())
    result = await arena.run_episode("redblue")
    assert [turn.role for turn in result.rollout.turns] == ["Attacker", "Defender"]
    assert [turn.messages[0]["content"] for turn in result.rollout.turns] == [
        "Find vulnerabilities...",
        "Patch the code...",
    ]
    assert [turn.completion.sampling.temperature for turn in result.rollout.turns] == [0.9, 0.7]
