"""Elo arena: one policy as several agents, each with a prompt of its own, who all play each other and are rated.

A population in prompts instead of weights. In a round everyone meets everyone, in a two-player game from either
seat or on a question that a judge decides; all battles of a round are in one tree, and count from the ratings of
its beginning. A battle's reward is the change of rating in units of `k`, the score less what the ratings expected
(Elo 1978): beating a stronger agent is worth more, and little is won by beating those one always beats. Known to go
wrong: ratings are relative, and rise only as others fall, so whether anyone got better is measured against an
anchor that doesn't learn, by an order-free Bradley–Terry fit; as all agents share the weights, all may become the
same (`spread`); and a step of many battles moves ratings beyond their mark, unless `k` times the battles of an
agent in a step stays below 500.
"""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Annotated, Any, Literal

from engine import (
    BASE,
    Arena,
    ArtifactStore,
    Between,
    Episode,
    EpisodeRequest,
    EpisodeState,
    Game,
    GameTask,
    Judge,
    Role,
    Task,
    TaskError,
    bradley_terry,
    elo_gain,
    load_task,
    mean,
    random_move,
)
from tasks.contests import problems, system_prompt
from tasks.contests.battles import AnswerBattle, GameBattle

ANCHOR = "Anchor"
"""Who doesn't learn: random play in a game, the base model on questions. Rated 1000."""
AGENTS = {"Plain": "", "Bold": "Be bold.", "Careful": "Be careful.", "Patient": "Think before you answer."}
START = 1000.0


class Round(Episode):
    """Everyone meets everyone; then the ratings move."""

    def __init__(self, pairs: list[tuple[str, str]], k: float) -> None:
        super().__init__()
        self.pairs, self.k = pairs, k

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        rated = list(arena.stores["ratings"])
        before = {agent.data["agent"]: agent.data["rating"] for agent in rated}
        requests = [
            EpisodeRequest(
                f"{first}-{second}",
                {
                    **artifact,
                    "ratings": {first: before[first], second: before[second]},
                    "beginning": f"{state.id} {sorted((first, second))}",  # both seatings begin alike
                },
            )
            for first, second in self.pairs
        ]
        results = await arena.generate_rollouts(requests)
        changes: dict[str, list[float]] = {agent: [] for agent in before}
        for (first, second), result in zip(self.pairs, results, strict=True):
            score = result.rollout.extras.get("score")
            if score is not None:
                gained = elo_gain(before[first], before[second], score, self.k)
                changes[first].append(gained)
                changes[second].append(-gained)
        for agent in rated:
            change = changes[agent.data["agent"]]
            rating, battles = agent.data["rating"] + sum(change), agent.data["battles"] + len(change)
            agent.data = {**agent.data, "rating": rating, "battles": battles}
        state.data = {"before": before, "change": {agent: sum(change) for agent, change in changes.items()}}
        return state


class EloArena(Task):
    """Options: `game`, a two-player game by its task's name, or `questions`; `agents`, a table of name and style;
    `k`; `openings` and `notation` of a game as in its own task; `prompts` and `judge` of questions as in
    `head_to_head`."""

    def __init__(
        self,
        *,
        game: str = "nim",
        agents: dict[str, str] | None = None,
        k: Annotated[float, Between(0.001, 200.0)] = 20.0,
        openings: Annotated[int, Between(0, 1000)] = 0,
        notation: Literal["compact", "words"] = "compact",
        prompts: str = "",
        judge: dict[str, Any] | None = None,
    ) -> None:
        self.agents = AGENTS if agents is None else agents
        if len(self.agents) < 2 or ANCHOR in self.agents or not all(map(str.isidentifier, self.agents)):
            raise TaskError(
                "elo_arena: option 'agents' wants two or more names of letters, digits and _, none of them "
                f'{ANCHOR!r}, each with a style, such as {{ Bold = "Be bold.", Plain = "" }}, not {agents}'
            )
        self.k, self.openings, self.words = float(k), openings, notation == "words"
        self.game = None if game == "questions" else _game(game)
        self.judge = Judge.configured("elo_arena", judge)
        self.prompts, self.held_out = problems("judge", prompts) if self.game is None else ([{}], [{}])
        self.pairs = list(combinations(self.agents, 2) if self.game is None else permutations(self.agents, 2))
        self.anchored = [pair for agent in self.agents for pair in ((agent, ANCHOR), (ANCHOR, agent))]

    def setup(self, arena: Arena) -> None:
        game = self.game
        said = system_prompt("judge") if game is None else game.rules if self.words else game.prompt
        for agent, style in self.agents.items():
            arena.add_role(Role(agent, system_prompt=f"{said} {style}".strip(), max_tokens=128))
        if game is None:
            arena.add_role(Role(ANCHOR, system_prompt=said, max_tokens=128, player=BASE))
        for pair in [*self.pairs, *self.anchored]:
            battle = AnswerBattle(self.judge, pair) if game is None else self._battle(game, pair)
            arena.add_episode("-".join(pair), battle)
        arena.add_episode("round", Round(self.pairs, self.k))
        arena.add_store("prompts", ArtifactStore(self.prompts, seed=arena.seed))
        rated = ({"agent": agent, "rating": START, "battles": 0} for agent in self.agents)
        arena.add_store("ratings", ArtifactStore(rated))

    def _battle(self, game: Game[Any], pair: tuple[str, str]) -> Episode:
        return GameBattle(game, openings=self.openings, words=self.words, bots={"random": random_move}, roles=pair)

    def requests(self, arena: Arena, n: int) -> list[EpisodeRequest]:
        return [EpisodeRequest("round", prompt.data) for prompt in arena.stores["prompts"].sample(n)]

    async def evaluate(self, arena: Arena, n: int, label: str) -> dict[str, float]:
        """`n` battles with an anchor that doesn't learn, and as many among the agents, from all of which they are
        rated, the anchor with 1000: `rating_NAME` of each, their mean as `rating`, from least to most as `spread`;
        `score_vs_anchor`, and shares of all battles that were `unscored` or ended by an agent's `illegal` move."""
        pairs = [pairs[i % len(pairs)] for pairs in (self.anchored, self.pairs) for i in range(n)]
        requests = [
            EpisodeRequest(
                f"{first}-{second}",
                {**self.held_out[i % len(self.held_out)], "ratings": {first: START, second: START}},
                is_trainable=False,
                players={} if self.game is None or ANCHOR not in (first, second) else {ANCHOR: "random"},
            )
            for i, (first, second) in enumerate(pairs)
        ]
        results = await arena.generate_rollouts(requests, label=label)
        scores = [result.rollout.extras.get("score") for result in results]
        games = [(*pair, score) for pair, score in zip(pairs, scores, strict=True) if score is not None]
        fit = bradley_terry(games)
        anchor = fit[ANCHOR].value if ANCHOR in fit else START
        ratings = {name: START + fit[name].value - anchor if name in fit else START for name in self.agents}
        return {
            "rating": mean(ratings.values()),
            "spread": max(ratings.values()) - min(ratings.values()),
            "score_vs_anchor": mean(
                score if second == ANCHOR else 1 - score
                for first, second, score in games
                if ANCHOR in (first, second)
            ),
            "unscored": mean(score is None for score in scores),
            "illegal": mean(bool(result.rollout.extras.get("illegal")) for result in results),
        } | {f"rating_{name}": rating for name, rating in ratings.items()}


def _game(name: str) -> Game[Any]:
    task = load_task(name, {})
    if not isinstance(task, GameTask):
        raise TaskError(
            f"elo_arena: option 'game' wants a two-player game, such as 'nim', or 'questions', not {name!r}"
        )
    return task.game
