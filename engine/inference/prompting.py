"""Requests admitted to the batch, until their prompts are computed: short ones at once, a long one in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import mlx.core as mx

from engine.inference.adapters import Adapters
from engine.inference.cache import Layers
from engine.inference.models import LanguageModel
from engine.inference.prefilling import Long, prefill
from engine.inference.prefix_cache import Hit
from engine.inference.prefixes import Prompt, grouped
from engine.inference.recall import Recall
from engine.inference.requests import Request
from engine.inference.scheduling import Scheduler


@dataclass(frozen=True, slots=True)
class Prompted:
    """Requests of one player whose prompts are computed, in the order of their cache's rows."""

    requests: Sequence[Request]
    layers: Layers
    hits: Sequence[Hit | None]
    """What was known of each."""
    logits: mx.array
    """[requests, V] after each prompt. Not evaluated yet."""
    pure: bool = True
    """Whether all was computed with one version."""


class Prompting:
    """The prompts being computed. `long` is the one of which part is done."""

    def __init__(self, lm: LanguageModel, adapters: Adapters, scheduler: Scheduler, recall: Recall) -> None:
        self.long: Long | None = None
        self._lm, self._adapters, self._scheduler, self._recall = lm, adapters, scheduler, recall

    def short(self, arrivals: Sequence[Request], hits: Mapping[int, Hit]) -> Iterator[Prompted]:
        """Compute whole prompts, of which `hits` says what is known by request; what can be one rectangle is."""
        players: dict[str, dict[Prompt, list[Request]]] = {}
        for request in arrivals:
            players.setdefault(request.player, {}).setdefault(tuple(request.prompt), []).append(request)
        sources = self._recall.sources({request.id: hits[request.id] for request in arrivals if request.id in hits})
        for player, asking in players.items():
            found = {prompt: sources[same[0].id] for prompt, same in asking.items() if same[0].id in sources}
            known = {prompt: source.length for prompt, source in found.items()}
            for group in grouped(list(asking), self._scheduler.costs.forward, known):
                with self._adapters.rows([self._adapters.slot(player)]):
                    done = prefill(self._lm, group, found)
                requests = [request for prompt in done.prompts for request in asking[prompt]]
                done = done.copied([len(asking[prompt]) for prompt in done.prompts])
                self._recall.stats.computed += group.tokens
                self._recall.stats.hits += len(requests) if group.known else 0
                yield Prompted(requests, done.layers, [hits.get(request.id) for request in requests], done.logits)

    def begin(self, request: Request, hit: Hit | None) -> None:
        """A long prompt is next, of which `hit` is known."""
        if hit is None:
            layers = self._lm.make_cache([0])
        else:
            [source] = self._recall.sources({request.id: hit}).values()
            layers = source.layers.spread([source.row], [source.length])
            mx.eval(layers.arrays)
            self._recall.stats.hits += 1
        self.long = Long(request, layers, hit.length if hit else 0, hit)

    def advance(self, *, decoding: bool) -> Prompted | None:
        """Compute as much of the long prompt as is due; what comes of it once that is all."""
        long = self.long
        if long is None:
            return None
        left = len(long.request.prompt) - long.done
        count = self._scheduler.spend(left, long.done, decoding=decoding)
        if not count:
            return None
        with self._adapters.rows([self._adapters.slot(long.request.player)]):
            hidden = long.advance(self._lm, count)
        self._recall.stats.computed += count
        if count < left:
            mx.eval(hidden)
            return None
        self.end()
        return Prompted([long.request], long.layers, [long.hit], self._lm.head(hidden[:, -1]), long.pure)

    def end(self) -> None:
        """The next long one may begin, or need only little computing by now."""
        self.long = None
        self._scheduler.reconsider()

    def forget(self) -> None:
        """Nobody is to go on from the long prompt's beginning."""
        if self.long is not None:
            self.long.hit, self.long.pure = None, False

    def speaks_for(self, player: str) -> bool:
        return self.long is not None and self.long.request.player == player
