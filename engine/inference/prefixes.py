"""Which prompts to compute together, so that what they share is computed once. No MLX here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

Prompt = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Prompts computed as one rectangle: the last `columns` tokens of each.

    What comes before is known already (`known`), or is their common beginning of `shared` tokens and computed once.
    """

    prompts: list[Prompt]
    columns: int
    shared: int = 0
    known: bool = False

    @property
    def tokens(self) -> int:
        """How many tokens are computed, padding included."""
        return self.shared + len(self.prompts) * self.columns

    def cost(self, forward: float) -> float:
        return self.tokens + forward * (2 if self.shared else 1)


def grouped(prompts: Sequence[Prompt], forward: float, known: Mapping[Prompt, int] | None = None) -> list[Group]:
    """Different prompts, in groups that save more by what they share than the passes they add cost.

    `forward`: what one more pass costs beside its tokens, in tokens. `known`: how many first tokens of a prompt
    need no computing, where any. That is made use of if it is cheaper than computing beginnings again that many
    prompts share. A beginning never takes in a prompt's last token: its logits are what a prefill is for.
    """
    fresh = _split(sorted(prompts), forward)
    if not known:
        return fresh
    rest = sorted(prompt for prompt in prompts if not known.get(prompt))
    reusing = _continued({prompt: known[prompt] for prompt in prompts if known.get(prompt)}, forward)
    reusing += _split(rest, forward) if rest else []
    return min(reusing, fresh, key=lambda groups: sum(group.cost(forward) for group in groups))


def _continued(known: Mapping[Prompt, int], forward: float) -> list[Group]:
    """Prompts with known beginnings, those with about as much left to compute together."""
    left = sorted(((len(prompt) - length, prompt) for prompt, length in known.items()), reverse=True)
    groups: list[Group] = []
    for index, (columns, prompt) in enumerate(left):
        if not groups or (groups[-1].columns - columns) * (len(left) - index) > forward:
            groups.append(Group([], columns, known=True))
        groups[-1].prompts.append(prompt)
    return groups


def _split(ordered: list[Prompt], forward: float) -> list[Group]:
    whole = _group(ordered, forward)
    if len(ordered) < 3:
        return [whole]
    alike = common(ordered)
    parts = [list(part) for _, part in groupby(ordered, key=lambda prompt: prompt[alike : alike + 1])]
    apart = sum(_group(part, forward).tokens for part in parts) + forward * (len(parts) - 1)
    if len(parts) == 1 or apart >= whole.tokens:
        return [whole]
    return [group for part in parts for group in _split(part, forward)]


def _group(ordered: list[Prompt], forward: float) -> Group:
    alike = min(common(ordered), min(len(prompt) for prompt in ordered) - 1)
    worth = len(ordered) > 1 and alike * (len(ordered) - 1) > forward
    shared = alike if worth else 0
    return Group(ordered, max(len(prompt) for prompt in ordered) - shared, shared)


def common(ordered: Sequence[Prompt]) -> int:
    """How many first tokens sorted prompts share: as many as the first and the last one do."""
    first, last = ordered[0], ordered[-1]
    for place, (a, b) in enumerate(zip(first, last, strict=False)):
        if a != b:
            return place
    return min(len(first), len(last))
