"""One role sees a thing and gives a sign for it, the other sees the sign alone and names the thing.

Both are paid when it is the right one. What a sign means nobody tells them: that they make up.
"""

from engine import Episode, EpisodeRequest, Role, Rubric, Task

THINGS, SIGNS = ["09", "10"], ["[1]", "[2]"]  # texts that the embedded model has met before


def understood(rollout, arena):
    """A reward function: role → reward. Where it can't judge it returns None, and nothing is learnt."""
    right = float(rollout.extras["named"] == rollout.artifact)
    return {"Teller": right, "Guesser": right}


class Telling(Episode):
    rubric = Rubric([understood])

    async def rollout(self, arena, artifact, state):
        # the answers in `legal` are the only ones that a role which the preset calls constrained can give
        sign = await self.call_model("Teller", artifact, arena, legal=SIGNS)
        named = await self.call_model("Guesser", sign.text, arena, legal=THINGS)
        state.data = {"sign": sign.text, "named": named.text}  # not in self, which plays many at once
        return state

    def get_extras(self, state):
        return state.data  # what reward functions read, and what is kept in the run's record


class Signals(Task):
    def setup(self, arena):
        arena.add_role(Role("Teller", system_prompt="Tell."))
        arena.add_role(Role("Guesser", system_prompt="Guess."))
        arena.add_episode("telling", Telling())

    def requests(self, arena, n):  # the artifact is what an episode begins with
        return [EpisodeRequest("telling", THINGS[(arena.played + i) % len(THINGS)]) for i in range(n)]

    async def evaluate(self, arena, n, label):  # the label keeps these episodes out of training
        asked = [EpisodeRequest("telling", THINGS[i % len(THINGS)]) for i in range(n)]
        results = await arena.generate_rollouts(asked, label=label)
        return {"understood": sum(result.rewards.get("Guesser", 0.0) for result in results) / n}
