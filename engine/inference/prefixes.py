"""Which prompts to compute together: those that begin alike share the computation of their beginning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

Prompt = tuple[int, ...]

FORWARD_COST = 64
"""What one more forward pass costs beside its tokens, in tokens of a small model on a CPU."""


@dataclass(frozen=True, slots=True)
class Group:
    """Prompts computed as one rectangle, after their common beginning of `shared` tokens was computed once."""

    prompts: list[Prompt]
    shared: int

    @property
    def tokens(self) -> int:
        """How many tokens are computed, padding included."""
        width = max(len(prompt) for prompt in self.prompts)
        return self.shared + len(self.prompts) * (width - self.shared)


def grouped(prompts: Sequence[Prompt]) -> list[Group]:
    """Different prompts, in groups that save more by what they share than another forward pass costs.

    A beginning never takes in a prompt's last token: its logits are what a prefill is for.
    """
    return _split(sorted(prompts))


def _split(ordered: list[Prompt]) -> list[Group]:
    whole = _group(ordered)
    if len(ordered) < 3:
        return [whole]
    alike = common(ordered)
    parts = [list(part) for _, part in groupby(ordered, key=lambda prompt: prompt[alike : alike + 1])]
    apart = sum(_group(part).tokens for part in parts) + FORWARD_COST * (len(parts) - 1)
    if len(parts) == 1 or apart >= whole.tokens:
        return [whole]
    return [group for part in parts for group in _split(part)]


def _group(ordered: list[Prompt]) -> Group:
    alike = min(common(ordered), min(len(prompt) for prompt in ordered) - 1)
    worth = len(ordered) > 1 and alike * (len(ordered) - 1) > FORWARD_COST
    return Group(ordered, alike if worth else 0)


def common(ordered: Sequence[Prompt]) -> int:
    """How many first tokens sorted prompts share: as many as the first and the last one do."""
    first, last = ordered[0], ordered[-1]
    for place, (a, b) in enumerate(zip(first, last, strict=False)):
        if a != b:
            return place
    return min(len(first), len(last))
