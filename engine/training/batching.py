"""Training records → padded microbatches of similar length, with flat indices of what is learnt from.

NumPy only. Shapes: B rows, L their padded length, N active tokens, S sequences and P preference pairs of one
optimiser update.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from engine.training.preferences import Conversation, Pair
from engine.types import TrainingRecord

PADDING = 0
"""What fills a row up. Any id will do: it comes after every active token, and attention is causal."""


@dataclass(slots=True)
class Row:
    """Tokens to run through the model once, and the completions inside them that are learnt from."""

    tokens: list[int]
    spans: list[tuple[int, TrainingRecord]] = field(default_factory=list)
    """Where each completion starts in `tokens`, and its record."""

    @property
    def length(self) -> int:
        """Tokens the model reads: the last one predicts nothing we know of."""
        return len(self.tokens) - 1

    @property
    def conversation(self) -> Conversation:
        return self.spans[0][1].conversation


@dataclass(frozen=True, slots=True)
class Allowed:
    """What each of N active tokens was chosen among, one list after the other."""

    ends: np.ndarray
    """[N + 1] int64: the list of token n is `tokens[ends[n] : ends[n + 1]]`; an empty one stands for all tokens."""
    tokens: np.ndarray
    """[M] int32: token ids."""

    def places(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the active tokens from `start` to before `stop`: which are limited [n] bool, and what may be chosen.

        That is flat indices into a matrix [n, V]: rows [m] and token ids [m].
        """
        counts = np.diff(self.ends[start : stop + 1])
        rows = np.repeat(np.arange(stop - start, dtype=np.int32), counts)
        return counts > 0, rows, self.tokens[self.ends[start] : self.ends[stop]]


@dataclass(frozen=True, slots=True)
class Microbatch:
    """One forward and backward pass."""

    tokens: np.ndarray
    """[B, L] int32, padded on the right."""
    positions: np.ndarray
    """[N] int32 into the flattened [B·L]: where each active token is predicted, one before where it stands."""
    targets: np.ndarray
    """[N] int32: the active tokens."""
    segments: np.ndarray
    """[N] int32: the sequence of each, an index into the update's S. A sequence is never divided."""
    behaviour: np.ndarray
    """[N] float32: log-probability when sampled."""
    advantages: np.ndarray
    """[N] float32."""
    temperatures: np.ndarray
    """[N] float32."""
    versions: np.ndarray
    """[N] int32: the policy version that sampled each."""
    allowed: Allowed | None = None
    """What constrained tokens were chosen among; None where no token was."""

    @property
    def size(self) -> int:
        """Tokens computed, padding included."""
        return self.tokens.size


@dataclass(frozen=True, slots=True)
class Minibatch:
    """What one optimiser update learns from."""

    microbatches: list[Microbatch]
    lengths: np.ndarray
    """[S] int64: active tokens a sequence, what the normalisers are made of."""
    advantages: np.ndarray
    """[S] float32."""
    conversations: np.ndarray
    """[S] int64: which conversation each sequence is a turn of."""
    pairs: np.ndarray
    """[P, 2] int64: conversations to compare, the preferred one first."""
    tokens: int
    """Prompt and completion tokens of all rows, equal rows each counted; padding not."""
    records: list[TrainingRecord] = field(default_factory=list)
    """[S]: what each sequence is of."""


def rows(records: Sequence[TrainingRecord]) -> list[Row]:
    """One row a record; but a turn whose prompt extends an earlier turn of its role goes on in the same row.

    A ten-turn conversation is then computed once and not ten times. Where a chat template rewrites what was
    said before, the prefix breaks and a new row starts.

    Raises:
        ValueError: an empty prompt or completion; tokens, log-probabilities and versions of unequal number; or a
            token that isn't among those that were allowed.
    """
    made: list[Row] = []
    latest: dict[Conversation, Row] = {}
    for record in records:
        _check(record)
        row = latest.get(record.conversation)
        if row is None or record.prompt_tokens[: len(row.tokens)] != row.tokens:
            row = latest[record.conversation] = Row([])
            made.append(row)
        row.spans.append((len(record.prompt_tokens), record))
        row.tokens = record.prompt_tokens + record.tokens
    return made


def minibatches(
    rows: Sequence[Row],
    count: int,
    budget: int,
    rng: np.random.Generator,
    pairs: Sequence[Pair] = (),
    multiple: int = 1,
) -> list[Minibatch]:
    """Shuffle rows into at most `count` minibatches of near equal size, each cut into microbatches.

    `budget` is the most padded tokens in a microbatch; a single longer row gets one of its own. Both sides of a
    pair are in the same minibatch, in any microbatches. Rows are padded to a `multiple`, as `padded` says. No rows:
    no minibatches. The order depends on the order of rows and pairs and the generator only.
    """
    if not rows:
        return []
    units = _inseparable(rows, pairs)
    parts = np.array_split(rng.permutation(len(units)), min(count, len(units)))
    chosen = ([row for index in np.sort(part) for row in units[index]] for part in parts)
    return [_minibatch(part, budget, pairs, multiple) for part in chosen]


def padded(length: int, multiple: int) -> int:
    """The next multiple; but what is no more than half of one stays as it is, or padding would cost too much.

    On CUDA MLX has a fused backward pass of attention for multiples of 128, and holds all scores elsewhere.
    """
    return length if 2 * length <= multiple else -(-length // multiple) * multiple


def _inseparable(rows: Sequence[Row], pairs: Sequence[Pair]) -> list[list[Row]]:
    """Each row for itself, but those of both sides of a pair together."""
    pair_of = {conversation: index for index, pair in enumerate(pairs) for conversation in pair}
    units: dict[tuple[str, int], list[Row]] = {}
    for index, row in enumerate(rows):
        pair = pair_of.get(row.conversation)
        units.setdefault(("row", index) if pair is None else ("pair", pair), []).append(row)
    return list(units.values())


def _minibatch(rows: list[Row], budget: int, pairs: Sequence[Pair], multiple: int) -> Minibatch:
    ordered = sorted(_distinct(rows), key=lambda row: row.length)
    groups: list[list[Row]] = []
    for row in ordered:
        if groups and (len(groups[-1]) + 1) * padded(row.length, multiple) <= budget:
            groups[-1].append(row)
        else:
            groups.append([row])
    microbatches, sequences = [], 0
    for group in groups:
        microbatches.append(_microbatch(group, sequences, multiple))
        sequences += sum(len(row.spans) for row in group)
    records = [record for row in ordered for _, record in row.spans]
    numbers: dict[Conversation, int] = {}
    for record in records:
        numbers.setdefault(record.conversation, len(numbers))
    inside = [[numbers[one] for one in pair] for pair in pairs if pair.preferred in numbers]
    return Minibatch(
        microbatches,
        lengths=np.array([len(record.tokens) for record in records], np.int64),
        advantages=np.array([record.advantage for record in records], np.float32),
        conversations=np.array([numbers[record.conversation] for record in records], np.int64),
        pairs=np.array(inside, np.int64).reshape(-1, 2),
        tokens=sum(len(row.tokens) for row in rows),
        records=records,
    )


def _distinct(rows: list[Row]) -> list[Row]:
    """Rows of equal tokens become one, computed once and learnt from each time: small games repeat themselves."""
    found: dict[tuple[int, ...], Row] = {}
    for row in rows:
        found.setdefault(tuple(row.tokens), Row(row.tokens)).spans.extend(row.spans)
    return list(found.values())


def _microbatch(group: list[Row], first_segment: int, multiple: int) -> Microbatch:
    width = padded(max(row.length for row in group), multiple)
    tokens = np.full((len(group), width), PADDING, np.int32)
    starts: list[int] = []
    records: list[TrainingRecord] = []
    for index, row in enumerate(group):
        tokens[index, : row.length] = row.tokens[:-1]
        for start, record in row.spans:
            starts.append(index * width + start - 1)
            records.append(record)
    lengths = np.array([len(record.tokens) for record in records])
    ends = np.cumsum(lengths)
    offsets = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
    return Microbatch(
        tokens=tokens,
        positions=(np.repeat(starts, lengths) + offsets).astype(np.int32),
        targets=_flat((record.tokens for record in records), np.int32),
        segments=np.repeat(np.arange(first_segment, first_segment + len(records)), lengths).astype(np.int32),
        behaviour=_flat((record.logprobs for record in records), np.float32),
        advantages=np.repeat(np.array([record.advantage for record in records], np.float32), lengths),
        temperatures=np.repeat(np.array([record.temperature for record in records], np.float32), lengths),
        versions=_flat((record.versions for record in records), np.int32),
        allowed=_allowed(records),
    )


def _allowed(records: Sequence[TrainingRecord]) -> Allowed | None:
    if not any(record.allowed for record in records):
        return None
    lists = [ids for record in records for ids in record.allowed or [[]] * len(record.tokens)]
    ends = np.cumsum([0, *map(len, lists)])
    return Allowed(ends, np.fromiter(chain.from_iterable(lists), np.int32, ends[-1]))


def _flat(lists, dtype: type) -> np.ndarray:
    return np.array([value for values in lists for value in values], dtype)


def _check(record: TrainingRecord) -> None:
    where = f"turn {record.turn} of rollout {record.rollout_id} ({record.role})"
    if not record.prompt_tokens or not record.tokens:
        raise ValueError(
            f"{where} has {len(record.prompt_tokens)} prompt and {len(record.tokens)} completion tokens; "
            "each needs at least one"
        )
    if not len(record.tokens) == len(record.logprobs) == len(record.versions):
        raise ValueError(
            f"{where} has {len(record.tokens)} tokens, {len(record.logprobs)} log-probabilities and "
            f"{len(record.versions)} versions; they must be equally many"
        )
    if not record.allowed:
        return
    if len(record.allowed) != len(record.tokens):
        raise ValueError(
            f"{where} has {len(record.tokens)} tokens, and what was allowed of {len(record.allowed)}; they must be "
            "equally many"
        )
    for token, ids in zip(record.tokens, record.allowed, strict=True):
        if ids and token not in ids:
            raise ValueError(f"{where} has token {token}, which was not among the {len(ids)} allowed")
