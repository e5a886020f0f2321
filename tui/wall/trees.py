"""Episodes and those they spawned, as trees: who stands under whom, and what is folded away."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tui.views import EpisodeView

DEEP = 40
"""Levels that are followed; no task has so many."""


def parent_of(episode: EpisodeView) -> str | None:
    """The id of the episode it was spawned by; told by its own id where its beginning was missed."""
    if episode.parent is not None:
        return episode.parent
    head, dot, number = episode.id.rpartition(".")
    return head if dot and number.isdecimal() and not head.endswith(("/", ".")) else None


@dataclass(slots=True)
class Forest:
    """All trees of the episodes that are known. A child whose parent is not among them is a root."""

    roots: list[EpisodeView] = field(default_factory=list)
    """In the order they are known in."""
    children: dict[str, list[EpisodeView]] = field(default_factory=dict)
    """Of those that have any, in the order of their numbers."""
    root: dict[str, str] = field(default_factory=dict)
    """Of each child, the id of its tree's root."""

    def below(self, episode_id: str) -> list[EpisodeView]:
        """All that came of an episode, each before its own children."""
        found: list[EpisodeView] = []
        for child in self.children.get(episode_id, ()):
            found += [child, *self.below(child.id)]
        return found

    def shown(self, root: EpisodeView, folded: Collection[str]) -> list[EpisodeView]:
        """A tree from its root on, without what is folded away."""
        found = [root]
        if root.id not in folded:
            for child in self.children.get(root.id, ()):
                found += self.shown(child, folded)
        return found

    def live(self, root: EpisodeView) -> bool:
        return root.live or any(child.live for child in self.below(root.id))


def forest(episodes: Mapping[str, EpisodeView]) -> Forest:
    """The trees of all episodes."""
    grown = Forest()
    children: dict[str, list[EpisodeView]] = defaultdict(list)
    for episode in episodes.values():
        parent = parent_of(episode)
        if parent is not None and parent in episodes and (root := _root(parent, episodes)) != episode.id:
            children[parent].append(episode)
            grown.root[episode.id] = root
        else:
            grown.roots.append(episode)
    grown.children = {parent: sorted(spawned, key=_number) for parent, spawned in children.items()}
    return grown


def _root(episode_id: str, episodes: Mapping[str, EpisodeView]) -> str:
    for _ in range(DEEP):
        parent = parent_of(episodes[episode_id])
        if parent is None or parent not in episodes:
            break
        episode_id = parent
    return episode_id


def _number(episode: EpisodeView) -> tuple[int, str]:
    last = episode.id.rpartition(".")[2]
    return (int(last), "") if last.isdecimal() and len(last) < 10 else (0, last)


def folded_away(forest: Forest, folded: Collection[str], lines: Sequence[str]) -> int:
    """How many episodes are folded away under those that have a line."""
    return sum(len(forest.below(name)) for name in lines if name in folded)
