"""Which episode sits in which row of the wall: rows keep still, so that an eye can rest on one.

A tree of episodes has a seat, and there its root stands, with those it spawned beneath it, unless they are folded
away. It keeps the seat while it plays and stays there, settled, until the seat is needed. New ones take the topmost
seat that has settled, or a new one at the end: what plays gathers at the top.

Where a filter is set, all that is known and meets it has a seat, the newest first, ended or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tui.state import Store
from tui.views import EpisodeView
from tui.wall.trees import Forest, folded_away, forest

SETTLE = 0.8
"""Seconds an ended episode keeps its row, while there is room for others."""

STALE = 5.0
"""Seconds after which rows at the end go, while others play."""

SPARE = 8
"""Rows there may be beyond those in play, before ones that just ended are taken."""

LAST = 60
"""Trees that a new wall shows of a run in which nothing plays."""

Matches = Callable[[EpisodeView], bool]


class Rows:
    """Rows of episodes, by id."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        """The episode of each row."""
        self.folded: set[str] = set()
        """Those whose children are folded away."""
        self.all_folded = False
        """Whether trees that are new come folded."""
        self.forest = Forest()
        self.away = 0
        """Episodes that are folded away."""
        self.found = 0
        """Episodes that meet the filter, folded away or not."""
        self.context: set[str] = set()
        """Rows that are there only for what stands beneath them."""
        self._seats: list[str] = []
        self._seat: set[str] = set()
        self._row: dict[str, int] = {}
        self._known: set[str] = set()
        """Parents that were seen before: what was done to their folds stays."""

    def __len__(self) -> int:
        return len(self.ids)

    def row(self, rollout_id: str) -> int | None:
        return self._row.get(rollout_id)

    def update(self, store: Store, keep: Sequence[str] = (), matches: Matches | None = None) -> bool:
        """Seats whoever is new; True where a row changed hands. Those in `keep` are never unseated."""
        trees = self.forest = forest(store.episodes)
        self._take_note(store)
        kept = {trees.root.get(name, name) for name in keep}
        if matches is None:
            self._sit(store, kept)
            ids, self.context = self._lines(store, None), set()
        else:
            shown = {episode.id for episode in store.episodes.values() if matches(episode)}
            self.found = len(shown)
            self._sit_found(store, shown)
            ids = self._lines(store, shown)
            self.context = {name for name in ids if name not in shown}
        changed = ids != self.ids
        if changed:
            self.ids = ids
            self._row = {name: row for row, name in enumerate(ids) if name}
        self.away = folded_away(trees, self.folded, ids) if self.folded else 0
        return changed

    def clear(self) -> None:
        """Nobody has a seat: others are wanted from now on."""
        self._put([])

    # Folds

    def fold(self, rollout_id: str) -> str:
        """Folds an episode's children away, or its parent's where it shows none; returns who stands there."""
        if not self.opens(rollout_id) or rollout_id in self.folded:
            rollout_id = self._parent(rollout_id) or rollout_id
        if self.opens(rollout_id):
            self.folded.add(rollout_id)
        return rollout_id

    def unfold(self, rollout_id: str) -> None:
        self.folded.discard(rollout_id)

    def fold_all(self) -> None:
        """Folds all trees away, or unfolds them where all are."""
        self.all_folded = not self.all_folded
        self.folded = set(self.forest.children) if self.all_folded else set()

    def opens(self, rollout_id: str) -> bool:
        """Whether it has children."""
        return rollout_id in self.forest.children

    def _parent(self, rollout_id: str) -> str | None:
        children = self.forest.children
        return next((name for name, spawned in children.items() if any(c.id == rollout_id for c in spawned)), None)

    def _take_note(self, store: Store) -> None:
        parents = set(self.forest.children)
        if self.all_folded:
            self.folded |= parents - self._known
        self._known = {name for name in self._known | parents if name in store.episodes}
        self.folded = {name for name in self.folded if name in store.episodes}

    # Seats

    def _lines(self, store: Store, shown: set[str] | None) -> list[str]:
        """The rows of all seats; where only some are `shown`, those and what they stand under."""
        trees, ids = self.forest, []
        for name in self._seats:
            root = store.episodes.get(name)
            if root is None:
                ids += [name] if shown is None else []
            elif name not in trees.children:
                ids.append(name)
            else:
                ids += [
                    episode.id
                    for episode in trees.shown(root, self.folded)
                    if shown is None
                    or episode.id in shown
                    or any(child.id in shown for child in trees.below(episode.id))
                ]
        return ids

    def _sit_found(self, store: Store, shown: set[str]) -> None:
        """Seats all trees with one that is shown, the newest first; who has a seat keeps it.

        One that no longer is, as it ended, gives its seat to the next, or goes once it has settled.
        """
        trees, now = self.forest, store.clock()
        wanted = {trees.root.get(name, name) for name in shown}
        free = [seat for seat, name in enumerate(self._seats) if name not in wanted]
        new = [episode for episode in reversed(trees.roots) if episode.id in wanted - self._seat]
        new.sort(key=lambda episode: -episode.begun)
        seats = list(self._seats)
        for episode in new[len(new) - min(len(free), len(new)) :]:
            seats[free.pop(0)] = episode.id
        gone = {seats[seat] for seat in free if now - (self._ended(store, seats[seat]) or -SETTLE) >= SETTLE}
        arrived = [episode.id for episode in new if episode.id not in set(seats)]
        self._put(arrived + [name for name in seats if name not in gone])

    def _put(self, seats: list[str]) -> None:
        self._seats, self._seat = seats, set(seats)

    def _sit(self, store: Store, keep: set[str]) -> None:
        live = [episode for episode in self.forest.roots if self.forest.live(episode)]
        new = [episode for episode in live if episode.id not in self._seat]
        if live:
            self._trim(store, keep)
        elif not self._seats:  # a new wall of a run that rests shows what was played last
            self._put([episode.id for episode in reversed(self.forest.roots[-LAST:])])
        # its parent may have become known since: then it stands beneath it
        if any(name in self.forest.root for name in self._seats):
            self._put([name for name in self._seats if name not in self.forest.root])
        if not new:
            return
        ready, fresh = self._free(store, keep)
        for episode in new:
            if ready:
                seat = ready.pop(0)
            elif fresh and len(self._seats) >= len(live) + SPARE:
                seat = fresh.pop(0)
            else:
                seat = len(self._seats)
                self._seats.append("")
            self._seat.discard(self._seats[seat])
            self._seats[seat] = episode.id
            self._seat.add(episode.id)

    def _free(self, store: Store, keep: set[str]) -> tuple[list[int], list[int]]:
        """Seats that have settled, from the top, and those whose tree has just ended, the earliest first."""
        now = store.clock()
        settled: list[tuple[float, int]] = []
        for seat, name in enumerate(self._seats):
            ended = self._ended(store, name)
            if name not in keep and ended is not None:
                settled.append((ended, seat))
        ready = [seat for ended, seat in settled if now - ended >= SETTLE]
        fresh = [seat for ended, seat in sorted(settled) if now - ended < SETTLE]
        return ready, fresh

    def _ended(self, store: Store, name: str) -> float | None:
        """When the tree in a seat ended; None while some of it plays, long ago for one that is forgotten."""
        episode = store.episodes.get(name)
        if episode is None:
            return -SETTLE
        if self.forest.live(episode):
            return None
        return max(each.ended or 0.0 for each in [episode, *self.forest.below(name)])

    def _trim(self, store: Store, keep: set[str]) -> None:
        """Drops seats at the end that nobody has played in for a while."""
        while self._seats:
            name = self._seats[-1]
            ended = self._ended(store, name)
            old = name not in store.episodes or (ended is not None and store.clock() - ended > STALE)
            if not old or name in keep:
                break
            self._seat.discard(self._seats.pop())
