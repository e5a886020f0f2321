"""Computing prompts: what is known of them is taken over, and the rest of several becomes one rectangle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from engine.inference.cache import Layers
from engine.inference.decoders import Decoder
from engine.inference.models import LanguageModel
from engine.inference.prefix_cache import Hit
from engine.inference.prefixes import Group, Prompt
from engine.inference.requests import Request
from engine.inference.scheduling import CHUNK


@dataclass(frozen=True, slots=True)
class Source:
    """Where the first `length` tokens of a prompt were computed."""

    layers: Layers | Decoder
    row: int
    length: int


@dataclass(frozen=True, slots=True)
class Prefilled:
    """Prompts in the order of their cache's rows, and the logits [prompts, V] after each. Not evaluated yet."""

    prompts: list[Prompt]
    layers: Layers
    logits: mx.array

    def copied(self, copies: Sequence[int]) -> Prefilled:
        """Prompt i `copies[i]` times over."""
        if max(copies) == 1:
            return self
        rows = np.repeat(np.arange(len(copies)), copies)
        self.layers.filter(rows)
        return Prefilled([self.prompts[row] for row in rows], self.layers, self.logits[mx.array(rows)])


@dataclass(slots=True)
class Long:
    """The prompt that is computed chunk by chunk."""

    request: Request
    layers: Layers
    done: int
    """Tokens whose keys and values are there."""
    hit: Hit | None
    pure: bool = True
    """Whether all was computed with one version."""

    def advance(self, lm: LanguageModel, count: int) -> mx.array:
        """Hidden states [1, count, D] of the next tokens. Not evaluated yet."""
        tokens = np.array([self.request.prompt[self.done : self.done + count]], np.int32)
        self.done += count
        return lm.hidden(mx.array(tokens), self.layers)


def prefill(lm: LanguageModel, group: Group, sources: Mapping[Prompt, Source]) -> Prefilled:
    """Compute a group's prompts, for one player. `sources` are looked at if the group's beginnings are known."""
    prompts = group.prompts
    if group.shared:
        beginning = lm.make_cache([0])
        forward(lm, np.array([prompts[0][: group.shared]]), beginning)
        sources = {prompt: Source(beginning, 0, group.shared) for prompt in prompts}
    if group.shared or group.known:
        prompts, layers = _continued(prompts, group.columns, sources)
    else:
        layers = lm.make_cache([group.columns - len(prompt) for prompt in prompts])
    tokens = np.zeros((len(prompts), group.columns), dtype=np.int32)
    for row, prompt in zip(tokens, prompts, strict=True):
        last = prompt[-group.columns :]
        row[group.columns - len(last) :] = last
    return Prefilled(prompts, layers, lm.head(forward(lm, tokens, layers)[:, -1]))


def forward(lm: LanguageModel, tokens: np.ndarray, layers: Layers) -> mx.array:
    """Hidden states of the last columns [B, ≤ CHUNK, D] of tokens [B, L]; what comes before them is evaluated."""
    width = tokens.shape[1]
    for start in range(0, width - CHUNK, CHUNK):
        mx.eval(lm.hidden(mx.array(tokens[:, start : start + CHUNK]), layers))
    return lm.hidden(mx.array(tokens[:, (width - 1) // CHUNK * CHUNK :]), layers)


def _continued(
    prompts: Sequence[Prompt], columns: int, sources: Mapping[Prompt, Source]
) -> tuple[list[Prompt], Layers]:
    """A cache that holds all but the last `columns` tokens of each prompt, and the order of its rows."""
    homes: dict[int, list[Prompt]] = {}
    for prompt in prompts:
        homes.setdefault(id(sources[prompt].layers), []).append(prompt)
    parts = []
    for together in homes.values():
        rows = [sources[prompt].row for prompt in together]
        counts = [len(prompt) - columns for prompt in together]
        parts.append(sources[together[0]].layers.spread(rows, counts))
    return [prompt for together in homes.values() for prompt in together], Layers.joined(parts)
