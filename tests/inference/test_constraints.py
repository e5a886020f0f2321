"""Legal answers as a trie of tokens, and biases of single tokens."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest
from scipy.special import log_softmax

from engine.inference.constraints import Choices, bias_of, choices
from engine.inference.tokenizer import ByteTokenizer
from tests.inference.conftest import Oracle

END = ByteTokenizer.END


class Words(ByteTokenizer):
    """Single bytes, but `[1` and `0]` are one token each, and spaces are none."""

    PAIRS: ClassVar = {"[1": 300, "0]": 301}

    def encode(self, text: str) -> list[int]:
        tokens = []
        text = text.replace(" ", "")
        while text:
            step = 2 if text[:2] in self.PAIRS else 1
            tokens.append(self.PAIRS.get(text[:2], ord(text[0])))
            text = text[step:]
        return tokens


def sequences(trie: Choices, node: int = 0) -> list[list[int]]:
    """Every way through the trie from a node."""
    if not trie.allowed(node):
        return [[]]
    return [[token, *rest] for token in trie.allowed(node) for rest in sequences(trie, trie.child(node, token))]


def test_the_ways_through_the_trie_are_the_texts_each_with_its_end_of_turn():
    trie = choices(ByteTokenizer(), ["[1]", "[2]", "pass"])
    assert sequences(trie) == [[*b"[1]", END], [*b"[2]", END], [*b"pass", END]]
    assert trie.allowed(0) == sorted([ord("["), ord("p")])
    assert trie.longest == 5


def test_the_end_of_turn_tells_a_text_from_one_that_goes_on():
    trie = choices(ByteTokenizer(), ["ab", "a"])
    assert trie.allowed(trie.child(0, ord("a"))) == [ord("b"), END]


def test_texts_are_the_tokens_of_the_tokenizer_not_their_bytes():
    trie = choices(Words(), ["[1]", "[10]"])
    assert sequences(trie) == [[300, ord("]"), END], [300, 301, END]]


def test_a_text_given_twice_counts_once():
    assert sequences(choices(ByteTokenizer(), ["a", "b", "a"])) == [[97, END], [98, END]]


def test_what_was_allowed_along_a_reply_is_told_token_by_token():
    trie = choices(ByteTokenizer(), ["ab", "ac", "d"])
    assert trie.along([97, 99, END]) == [[97, 100], [98, 99], [END]]
    with pytest.raises(KeyError):
        trie.along([97, 100])


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        ([], "choices is empty: a reply needs at least one text"),
        (["a", ""], "choices: '' has no tokens in this model"),
        (["  "], "choices: '  ' has no tokens in this model"),
    ],
)
def test_texts_that_can_be_no_reply_are_refused(texts: Sequence[str], complaint: str):
    with pytest.raises(ValueError, match=complaint):
        choices(Words(), texts)


def test_a_text_that_spells_the_end_of_a_turn_is_refused():
    class Spelt(ByteTokenizer):
        def encode(self, text: str) -> list[int]:
            return [END if character == "$" else ord(character) for character in text]

    with pytest.raises(ValueError, match=r"'a\$b' spells the end of a turn"):
        choices(Spelt(), ["a$b"])


def test_a_bias_names_one_token_and_values_of_the_same_one_add_up():
    assert bias_of(Words(), [("a", 2.0), ("[1", -1.0), (" a", 0.5)]) == ((97, 2.5), (300, -1.0))
    assert bias_of(Words(), ()) == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("yes", r"logit_bias: 'yes' is 3 tokens \('y', 'e', 's'\) in this model; it must be exactly one"),
        (" ", r"logit_bias: ' ' is no tokens in this model"),
    ],
)
def test_a_bias_of_a_text_that_isnt_one_token_is_refused_with_its_tokens(text: str, complaint: str):
    with pytest.raises(ValueError, match=complaint):
        bias_of(Words(), [("a", 1.0), (text, 2.0)])


def test_choices_of_a_real_tokenizer_spell_the_texts(oracle: Oracle):
    from engine.inference.tokenizer import ChatTokenizer

    tokenizer = ChatTokenizer(oracle.tokenizer, oracle.tokenizer.eos_token_ids)
    trie = choices(tokenizer, ["[1]", "user", "[12]"])
    assert sorted(tokenizer.decode(way) for way in sequences(trie)) == ["[12]", "[1]", "user"]
    assert all(way[-1] == tokenizer.end_of_turn for way in sequences(trie))


def test_scores_of_choices_are_those_of_the_distribution_over_them(lm, adapters, oracle: Oracle):
    from engine.inference.scoring import reply_logprobs

    prompt, replies = [5, 6, 7], [[10, 20, 2], [10, 21, 2], [11, 2], [10, 2]]
    found = reply_logprobs(lm, adapters, "base", prompt, replies, 0.7, Choices(replies))
    assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-5)
    for logprob, reply in zip(found, replies, strict=True):
        logits = oracle.logits([*prompt, *reply])[len(prompt) - 1 : -1] / 0.7
        expected = 0.0
        for place, (row, token) in enumerate(zip(logits, reply, strict=True)):
            following = sorted({other[place] for other in replies if other[:place] == reply[:place]})
            expected += log_softmax(row[following])[following.index(token)]
        assert logprob == pytest.approx(expected, abs=1e-4)


def test_constraints_are_made_without_loading_mlx():
    code = "import sys, engine.inference.constraints; print('mlx' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "False"
