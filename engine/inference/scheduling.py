"""Who is admitted when: decoding never stands behind a long prompt, and no prompt waits for ever. No MLX here.

There are two lanes. A prompt with at most a chunk left to compute is admitted whole, oldest first, as far as the
tick's budget of prompt tokens goes. Of longer ones one at a time is computed, chunk by chunk, and pays for
each chunk from credit that decoding earns: so its prefill takes a fixed share of the time, and what decodes
beside it goes on at a fixed share of its speed. Where nothing decodes, chunks follow each other without a pause.

Costs are counted in tokens and not in seconds, so that equal requests make equal batches.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.inference.requests import Request

CHUNK = 512
"""Columns of a prompt computed at once, which bounds the attention scores held."""

LONG_SHARE = 0.6
"""What a long prompt may spend of what decoding costs beside it: a token then takes 1.6 times as long."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What a forward pass costs, in tokens of a prompt."""

    forward: float = 64
    """The pass itself, tokens apart: reading the weights, or launching the kernels."""
    step: float = 1.0
    """What a pass that decodes costs, as a share of that."""
    reach: float = 4096
    """Columns of context over which attention costs a token as much as everything else does."""

    def of(self, tokens: int, columns: int = 0) -> float:
        """A pass over `tokens` that each look back at `columns`."""
        return self.forward + tokens * (1 + columns / self.reach)

    def of_step(self, rows: int, columns: int) -> float:
        """Decoding a token for each row."""
        return self.step * self.forward + rows * (1 + columns / self.reach)

    def affordable(self, credit: float, columns: int) -> int:
        """The most tokens of a pass that costs no more than `credit`."""
        return int((credit - self.forward) / (1 + columns / self.reach))


@dataclass(slots=True)
class Arrivals:
    """Who is admitted in a tick."""

    short: list[Request] = field(default_factory=list)
    long: Request | None = None
    """The next one to be computed in chunks."""


class Scheduler:
    """Requests that wait, and the credit of the long prompt under way."""

    def __init__(self, prefill_tokens: int, costs: Costs, chunk: int = CHUNK) -> None:
        """`prefill_tokens` bounds what short prompts compute in a tick."""
        self.costs = costs
        self.chunk = min(chunk, prefill_tokens)
        self._budget = prefill_tokens
        self._least = min(self.chunk, max(32, int(costs.forward) // 2))
        self._held: Counter[str] = Counter()
        self.clear()

    def __len__(self) -> int:
        return len(self._aside) + len(self._waiting)

    def clear(self) -> None:
        """Forget everyone who waits."""
        self._waiting: deque[Request] = deque()
        self._aside: list[Request] = []
        """Passed over, oldest first and all older than `_waiting`: too long now, or of a held player."""
        self.forget_credit()

    def add(self, request: Request) -> None:
        self._waiting.append(request)

    def remove(self, unwanted: Callable[[Request], bool]) -> list[Request]:
        """Those who leave without having been admitted."""
        removed = [request for request in (*self._aside, *self._waiting) if unwanted(request)]
        if removed:
            self._aside = [request for request in self._aside if not unwanted(request)]
            self._waiting = deque(request for request in self._waiting if not unwanted(request))
        return removed

    def hold(self, player: str) -> None:
        """Admit none of a player's requests until as many calls of `release`; others pass them."""
        self._held[player] += 1

    def release(self, player: str) -> None:
        self._held[player] -= 1
        self.reconsider()

    def reconsider(self) -> None:
        """What they were passed over for is no more: they are the oldest again."""
        self._waiting.extendleft(reversed(self._aside))
        self._aside = []

    def admit(self, free: int, busy: bool, known: Callable[[Request], int]) -> Arrivals:
        """Take the oldest that fit into `free` rows and the budget.

        `busy`: a long prompt is under way already. `known` tells how many first tokens of a prompt need no
        computing. Equal prompts of one player are computed once, and count once; what is computed at once
        is at most a rectangle as wide as the longest.
        """
        arrivals = Arrivals()
        prompts: set[tuple[str, tuple[int, ...]]] = set()
        width = 0
        while self._waiting and free:
            request = self._waiting[0]
            if self._held[request.player]:
                self._aside.append(self._waiting.popleft())
                continue
            left = len(request.prompt) - known(request)
            if left > self.chunk:
                self._waiting.popleft()
                if busy:
                    self._aside.append(request)
                else:
                    arrivals.long, busy, free = request, True, free - 1
                continue
            prompts.add((request.player, tuple(request.prompt)))
            width = max(width, left)
            if width * len(prompts) > self._budget:
                break
            arrivals.short.append(self._waiting.popleft())
            free -= 1
        return arrivals

    def earn(self, rows: int, columns: int, busy: bool) -> None:
        """Rows are decoded: a long prompt under way may spend a share of that, or a debt is paid off."""
        self._credit += LONG_SHARE * self.costs.of_step(rows, columns)
        if not busy:
            self._credit = min(self._credit, 0.0)

    def spend(self, left: int, columns: int, decoding: bool) -> int:
        """How many of the `left` tokens of the long prompt under way are computed now, after `columns` others.

        A chunk that is computed while nobody decodes is a debt: whoever comes next isn't slowed down twice.
        """
        most = min(left, self.chunk)
        tokens = min(most, self.costs.affordable(self._credit, columns)) if decoding else most
        if tokens < min(left, self._least):
            return 0
        cost = self.costs.of(tokens, columns)
        self._credit = max(self._credit - cost, -cost)
        return tokens

    def forget_credit(self) -> None:
        """As at the beginning: what comes next doesn't depend on what was before."""
        self._credit = 0.0
