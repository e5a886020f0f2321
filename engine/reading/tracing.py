"""Where a turn's advantage came from: its episode, and all that its rewards were compared with.

Only what was kept when it was used: the credit of every member of a group is in the record beside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.rows import StoredEpisode, walk
from engine.store import Store
from engine.types import Credit, GenerateResult


@dataclass(frozen=True, slots=True)
class Member:
    """One reward of those that were compared."""

    rollout_id: str
    credit: Credit
    """Of the last turn that earned it."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One episode with its turns, and what surrounds it."""

    episode: StoredEpisode
    parent: StoredEpisode | None = None
    children: list[StoredEpisode] = field(default_factory=list)
    compared: dict[str, list[Member]] = field(default_factory=dict)
    """`Credit.group` of its turns → all members, in the order in which credit was given."""
    is_over: bool = True
    """Whether nothing more will be said in it."""


def read(folder: Path, rollout_id: str) -> Trace | None:
    """From the record of the run in a folder, whoever writes to it; None if there is no such episode yet.

    Raises `StoreError`. On any thread.
    """
    with Store.open(folder, read_only=True) as store:
        episode = store.episode(rollout_id)
        if episode is None:
            return None
        turns = store.turns(rollout_id)
        groups = {turn.credit.group for turn in turns if turn.credit is not None}
        return Trace(
            replace(episode, rollout=replace(episode.rollout, turns=turns)),
            store.episode(episode.parent) if episode.parent is not None else None,
            store.episodes(parent=rollout_id),
            members(store.credits(episode.step) if groups else (), groups),
        )


def of(batches: Iterable[Sequence[GenerateResult]], rollout_id: str, step: int) -> Trace | None:
    """From batches that wait to be learnt from, of which the first will be by `step`."""
    for later, results in enumerate(batches):
        found = {
            node.rollout.id: StoredEpisode(node.rollout, step + later, False, parent, node.is_trainable)
            for node, parent in walk(results)
        }
        if (episode := found.get(rollout_id)) is None:
            continue
        given = [
            (name, turn.credit) for name, stored in found.items() for turn in stored.rollout.turns if turn.credit
        ]
        groups = {turn.credit.group for turn in episode.rollout.turns if turn.credit is not None}
        children = [stored for stored in found.values() if stored.parent == rollout_id]
        return Trace(episode, found.get(episode.parent or ""), children, members(given, groups))
    return None


def members(given: Iterable[tuple[str, Credit]], groups: Iterable[str]) -> dict[str, list[Member]]:
    """The members of each of these groups, of all credit that was given."""
    found: dict[str, dict[str, Member]] = defaultdict(dict)
    wanted = set(groups)
    for rollout_id, credit in given:
        if credit.group in wanted:
            found[credit.group][rollout_id] = Member(rollout_id, credit)
    return {group: list(by_id.values()) for group, by_id in found.items()}
