"""What each metric means, in a sentence: one table, by families, for lists and read-outs.

A name in the table may hold `{…}`, which stands for any one name (of a role, a reward function, an opponent) and
is put into the sentence. Tasks may measure what they like: what isn't in the table is said to be the task's own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from engine.types import AVERAGE
from tui.words import label

EVALUATION, REWARD, LEARNING, BATCH, SAMPLING, SPEED = (
    "evaluation",
    "rewards",
    "learning",
    "what was learnt from",
    "episodes",
    "speed",
)
FAMILIES = (EVALUATION, REWARD, LEARNING, BATCH, SAMPLING, SPEED)

TABLE: dict[str, dict[str, str]] = {
    EVALUATION: {
        "eval/win_vs_{who}": "Share of evaluation games in which the policy got more than {who}",
        "eval/draw_vs_{who}": "Share of evaluation games in which the policy got as much as {who}",
        "eval/loss_vs_{who}": "Share of evaluation games in which the policy got less than {who}",
        "eval/reward_vs_{who}": "Mean reward of the policy against {who}",
        "eval/score_vs_{who}": "Mean score against {who}: 1 for a win, 0.5 for a draw",
        "eval/illegal": "Share of evaluation games that the policy lost by an illegal move",
        "eval/illegal_{who}": "Share of evaluation games {who} that ended by an illegal move",
        "eval/nash_conv": "How much both players could gain by best responses: 0 at an equilibrium",
        "eval/accuracy": "Share of held-out questions answered rightly, most likely token first",
        "eval/accuracy_{how}": "Share of held-out questions answered rightly, {how}",
        "eval/hardest": "Share of the hardest held-out questions answered rightly",
        "eval/sampled": "Share of held-out questions answered rightly when sampled as in training",
        "eval/repeated": "Held-out questions that training has too, and that were taken out of it",
        "eval/optimal_moves": "Share of moves that a perfect player might have made",
        "eval/unscored": "Share of evaluation episodes that nothing could score",
        "eval/unread": "Share of replies in which no answer was found",
        "eval/solved": "Share of held-out problems whose every test passed",
        "eval/pass_rate": "Mean share of tests that passed",
        "eval/read": "Share of replies in which code was found",
        "eval/draw": "Share of verdicts that called it a draw",
        "eval/disagreed": "Share of judgements that turned with the order of the two replies",
        "eval/silent": "Share of episodes in which a side said nothing",
        "eval/rating": "Mean rating of those held out, in points of Elo",
        "eval/rating_{who}": "Rating of {who}, in points of Elo",
        "eval/spread": "Distance between the highest and the lowest rating, in points of Elo",
        "eval/best": "Share of replies that could not have been better",
        "eval/approval": "Mean of what the person, or who stands in, thought of the replies",
        "eval/answered": "Share of questions that the person answered",
        "eval/words": "Words of a reply, on average",
        "eval/deals_{who}": "Share of negotiations {who} that ended in a deal",
        "eval/efficiency_{who}": "Share of the joint gain that was reached {who}",
        "eval/pareto_{who}": "Share of deals {who} that couldn't be better for one and no worse for the other",
        "eval/draft": "Share of first drafts that were right",
        "eval/gained": "What later stages added to the first draft's accuracy",
        "eval/proved": "Share of held-out statements that were proved",
        "eval/progress": "Share of a proof that was done, on average",
        "eval/steps": "Steps of a proof, on average",
        "eval/verifier_accuracy": "How often the verifier is right, sound and broken proofs weighing the same",
        "eval/solve_rate": "Share of its own problems that the solver solved",
        "eval/target_gap": "Mean distance of a problem's solve rate from one half, where most is learnt",
        "eval/difficulty": "How hard the proposed problems are, by the task's own measure",
        "eval/distinct": "Share of valid proposals that differ from one another",
        "eval/invalid": "Share of proposals that were not valid",
        "eval/valid": "Share of proposals that were valid",
        "eval/practised": "Share of questions trained on that were answered rightly",
        "eval/held": "Share of drills in which the secret was kept and the work was done",
        "eval/leaked": "Share of drills in which the secret got out",
        "eval/done": "Share of drills in which the work was done",
        "eval/done_alone": "Share of work done where nobody attacked",
        "eval/base_leaked": "Share of attacks by the policy that the base model gave way to",
        "eval/first": "Quality of the first version",
        "eval/last": "Quality of the last version",
        "eval/improvement": "How much better the last version is than the first",
        "eval/honest": "Share of critiques that told the truth about the version",
        "eval/no_verdict": "Share of episodes without a verdict",
        "eval/searches": "Searches an answer took, on average",
        "eval/repaired": "Share of held-out bugs that were repaired",
        "eval/repaired_unseen": "Share of bugs repaired in modules that training never saw",
    },
    REWARD: {
        "reward/{role}": "Mean reward of {role} over the step's scored episodes",
        "reward/{role}/{function}": "What {function} gave {role}, on average over the step's scored episodes",
        "seat_bias": "Largest difference between the mean rewards of one task's roles",
    },
    LEARNING: {
        "loss": "What the optimiser lowered, mean over the step's updates; its level says little in self-play",
        "policy_loss": "The policy-gradient part of the loss, before its weight",
        "sft_loss": "Mean negative log-probability of what was imitated, before its weight",
        "dpo_loss": "The preference part of the loss, over pairs",
        "dpo_accuracy": "Share of pairs whose preferred side has gained more on the other than in the reference",
        "entropy": "How open the choice of a token is, in nats: near 0 the policy always says the same",
        "kl": "Distance from the reference policy, in nats a token",
        "grad_norm": "Length of the gradient before it is clipped",
        "ratio_mean": "Mean of new over old probability of the sampled tokens; 1 at the first update",
        "ratio_max": "Largest of new over old probability of a sampled token",
        "clip_fraction": "Share of tokens whose ratio the loss bounded",
        "mismatch_mean": "Mean difference of log-probability between sampler and learner; should stay near 0",
        "mismatch_max": "Largest difference of log-probability between sampler and learner",
        "learning_rate": "Step size of the optimiser",
        "lora_b_norm": "Length of the adapter's B: 0 is still the base model",
        "difference_norm": "Distance of the weights from where they began",
        "updates": "Updates of the weights in the step",
        "nonfinite": "Updates left out, their loss or gradient not being finite",
        "skipped": "1 where the step changed nothing, and so published nothing",
    },
    BATCH: {
        "signal": "Share of turns with credit whose advantage isn't 0: from the others nothing is learnt",
        "groups": "Groups whose rewards were compared",
        "flat_groups": "Groups with nothing but equal rewards: nothing is learnt from them",
        "lone_groups": "Groups of a single rollout, with nothing to compare it with",
        "turns": "Turns that were learnt from",
        "unlearnable": "Turns at temperature 0, which leave no gradient",
        "pairs": "Preference pairs that were learnt from",
        "age_mean": "How many versions old the turns learnt from were, on average",
        "age_max": "How many versions old the oldest turn learnt from was",
        "stale": "Turns dropped, being older than run.max_staleness",
        "tokens": "Tokens of the conversations learnt from, prompts included",
        "active_tokens": "Tokens the policy said that carry the gradient",
        "computed_tokens": "Tokens put through the model, padding included",
    },
    SAMPLING: {
        "episodes": "Episodes played for the step, children included",
        "turns_per_episode": "Turns of an episode, on average",
        "failed": "Episodes that raised an error",
        "unscored": "Episodes without an error that nothing could score",
        "illegal": "Illegal turns of the step",
        "illegal_rate": "Share of turns that were illegal",
        "truncated_rate": "Share of turns cut off before the model ended them",
    },
    SPEED: {
        "tokens_generated": "Tokens sampled for the step",
        "tokens_trained": "Tokens learnt from, prompts included",
        "generation_rate": "Tokens sampled a second, while playing",
        "training_rate": "Tokens learnt from a second, while learning",
        "play_seconds": "Seconds the step waited for its episodes",
        "learn_seconds": "Seconds the step took to learn",
    },
}

OWN = "Measured by the task's own evaluation"
UNKNOWN = "Recorded by the run under this name"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What is known of a metric."""

    family: str
    words: str
    """A sentence without its full stop."""


@lru_cache(512)
def meaning(name: str, roles: tuple[str, ...] = ()) -> Meaning:
    """The family and the sentence of a metric, by the name that the run gives it.

    `roles` tells, among several tasks, the role `kuhn/First` from a function `First` of a role `kuhn`.
    """
    found = _rewarded(name, roles) or _found(name)
    if found is not None:
        return found
    if name.startswith("eval/"):
        return _evaluated(name.removeprefix("eval/"))
    return Meaning(LEARNING, UNKNOWN)


def is_known(name: str, roles: tuple[str, ...] = ()) -> bool:
    """Whether the table has a sentence for it."""
    return meaning(name, roles).words.partition(";")[0] not in (OWN, UNKNOWN)


def _found(name: str) -> Meaning | None:
    for pattern, family, words in _patterns():
        if match := pattern.fullmatch(name):
            return Meaning(family, words.format(**{key: label(value) for key, value in match.groupdict().items()}))
    return None


def _rewarded(name: str, roles: tuple[str, ...]) -> Meaning | None:
    for role in sorted(roles, key=len, reverse=True):
        if name == f"reward/{role}":
            return Meaning(REWARD, TABLE[REWARD]["reward/{role}"].format(role=label(role)))
        if name.startswith(f"reward/{role}/"):
            function = label(name.removeprefix(f"reward/{role}/"))
            words = TABLE[REWARD]["reward/{role}/{function}"]
            return Meaning(REWARD, words.format(role=label(role), function=function))
    return None


def _evaluated(metric: str) -> Meaning:
    """That of an average, or of one task among several, from that of the metric alone."""
    task, _, name = metric.rpartition("/")
    own = name.removeprefix(f"{AVERAGE}_")
    plain = _found(f"eval/{own}")
    words = plain.words if plain else OWN
    if own != name:
        words += "; of the policy's average"
    return Meaning(EVALUATION, words + (f"; task {label(task)}" if task else ""))


@lru_cache(1)
def _patterns() -> list[tuple[re.Pattern[str], str, str]]:
    """Those without a place to fill in first: `eval/illegal` is no `eval/illegal_{who}`."""
    found = [
        (re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(name))), family, words)
        for family, table in TABLE.items()
        for name, words in table.items()
    ]
    return sorted(found, key=lambda entry: entry[0].groups)
