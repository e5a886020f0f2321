"""Texts as tokens: replies limited to a list by a trie of what may come next, and biases of single tokens.

No MLX here: the main thread uses it.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.inference.tokenizer import Tokenizer


class Choices:
    """A trie over the token sequences allowed, each with its end of turn. Nodes are numbers; 0 is the root."""

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        self._next: list[dict[int, int]] = [{}]
        for sequence in sequences:
            node = 0
            for token in sequence:
                if token not in self._next[node]:
                    self._next[node][token] = len(self._next)
                    self._next.append({})
                node = self._next[node][token]
        self._allowed = [sorted(following) for following in self._next]
        self.longest = max((len(sequence) for sequence in sequences), default=0)
        """Tokens of the longest sequence, its end included: with fewer it could be cut."""

    def allowed(self, node: int) -> list[int]:
        """The tokens that may follow, ascending; none after a sequence's end. Not to be changed."""
        return self._allowed[node]

    def child(self, node: int, token: int) -> int:
        """Where `token` leads. KeyError if it isn't allowed there."""
        return self._next[node][token]

    def along(self, tokens: Sequence[int]) -> list[list[int]]:
        """What was allowed in the place of each of these tokens. KeyError for one that wasn't."""
        node, allowed = 0, []
        for token in tokens:
            allowed.append(self.allowed(node))
            node = self.child(node, token)
        return allowed


def choices(tokenizer: Tokenizer, texts: Sequence[str]) -> Choices:
    """The replies that are one of `texts`, each followed by the end of turn.

    That end tells a text from a longer one it begins. A text given twice counts once.

    Raises:
        ValueError: no texts, or one that has no tokens or holds a token that ends a turn.
    """
    if not texts:
        raise ValueError("choices is empty: a reply needs at least one text to choose")
    return Choices([[*_encoded(tokenizer, text), tokenizer.end_of_turn] for text in dict.fromkeys(texts)])


def _encoded(tokenizer: Tokenizer, text: str) -> list[int]:
    tokens = tokenizer.encode(text)
    if not tokens:
        raise ValueError(f"choices: {text!r} has no tokens in this model; a reply needs at least one")
    if not tokenizer.eos_tokens.isdisjoint(tokens):
        raise ValueError(f"choices: {text!r} spells the end of a turn, which no reply can go on after")
    return tokens


def bias_of(tokenizer: Tokenizer, logit_bias: Sequence[tuple[str, float]]) -> tuple[tuple[int, float], ...]:
    """(text, value) pairs as (token, value) pairs; values of one token are added up.

    Raises:
        ValueError: a text that isn't exactly one token of this model, with the tokens it is.
    """
    values: dict[int, float] = {}
    for text, value in logit_bias:
        tokens = tokenizer.encode(text)
        if len(tokens) != 1:
            pieces = ", ".join(repr(tokenizer.decode([token])) for token in tokens)
            made = f"{len(tokens)} tokens ({pieces})" if tokens else "no tokens"
            raise ValueError(f"logit_bias: {text!r} is {made} in this model; it must be exactly one")
        values[tokens[0]] = values.get(tokens[0], 0.0) + value
    return tuple(values.items())
