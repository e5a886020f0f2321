"""Odds read off a reply that was drawn are those the model has, whichever word was drawn and however sure it is."""

from __future__ import annotations

import pytest

from engine.inference.constraints import choices
from engine.rewards.odds import HOT, balanced, log_odds
from engine.types import Completion, Sampling
from tests.inference.conftest import Oracle
from tests.inference.test_clients import Local, ask

WORDS = ("yes", "no")


async def test_they_are_those_of_mlx_lms_teacher_forced_pass(folder):
    """Drawn hot, from many keys, so that either word comes; the oracle is at temperature 1."""
    sampling = Sampling(temperature=HOT, choices=WORDS)
    async with Local(folder) as local:
        drawn = [await local.submit("Is it?", key=key, sampling=sampling, player="base") for key in range(12)]
        oracle = await local.device.call(Oracle, folder)
        prompt = local.tokenizer.prompt(ask("Is it?"))
        yes, no = (local.tokenizer.encode(word) for word in WORDS)
        assert yes[0] != no[0], "the words branch at their first token, so that one token's odds are the words'"
        at_yes, at_no = [
            (await local.device.call(oracle.logprobs, prompt, ids[:1], 1.0)).sum() for ids in (yes, no)
        ]
    assert {reply.text for reply in drawn} == set(WORDS)
    for reply in drawn:
        assert log_odds(reply, WORDS) == pytest.approx(at_yes - at_no, abs=1e-3)


def test_words_that_begin_alike_branch_once():
    """The odds of a longer word are those at its one branching: nowhere else is there a choice."""

    class Bytes:
        end_of_turn, eos_tokens = 0, frozenset({0})

        def encode(self, text):
            return list(text.encode())

    trie = choices(Bytes(), ("tie", "time"))  # type: ignore[arg-type]
    assert [len(allowed) for allowed in trie.along([*b"time", 0])] == [1, 1, 2, 1, 1]


@pytest.mark.parametrize("odds", [-90.0, -20.0, -0.01, 0.0, 3.0, 90.0])
def test_a_float32_is_enough_for_a_judge_that_is_sure(odds):
    import numpy as np

    for word, sign in (("yes", 1), ("no", -1)):
        logprob = -np.log1p(np.exp(np.float32(-sign * odds / HOT)))
        found = log_odds(Completion(word, logprobs=[float(np.float32(logprob)), 0.0]), WORDS)
        assert found == pytest.approx(odds, rel=0.02, abs=1e-5)


def test_more_than_half_of_the_pairs_have_to_be_whole():
    assert balanced([1.0, None, 3.0], [1.0, 0.0, 1.0]) == pytest.approx(1 / (1 + 2.718281828**-0.5))
    assert balanced([1.0, None], [0.0, 0.0]) is None
