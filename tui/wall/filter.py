"""Which episodes the wall shows, as a person writes it: the terms of `engine.reading.query`, over memory.

    role:Pro task:debate reward<0 illegal live "a multiple of four" take* -forfeit

An episode is shown where one role of it meets all of these: it speaks for the role, its reward compares so, and one
turn of it says the words or was ruled out. Beside the terms of the search there are `task:`, and `live`, `ended`
and `failed`, which only a run at work has a use for.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.reading.query import REWARD, STEPS, TOKEN, QueryError
from tui.state import Store
from tui.views import EpisodeView, TurnView

FIELD = re.compile(r'(role|player|type|task|step):(?:"([^"]*)"?|(\S*))', re.IGNORECASE)

HELP = 'words  "a phrase"  role:First  task:nim  reward<0  illegal  live  ended  failed  eval  training'

Whole = Callable[[EpisodeView], bool]
Part = Callable[[EpisodeView, str], bool]
"""Of a role in an episode."""

FLAGS: dict[str, Whole] = {
    "live": lambda episode: episode.live,
    "ended": lambda episode: not episode.live,
    "failed": lambda episode: episode.error is not None,
    "eval": lambda episode: episode.is_evaluation,
    "training": lambda episode: episode.is_trainable and not episode.is_evaluation,
}

COMPARED: dict[str, Callable[[float, float], bool]] = {
    "<": lambda got, wanted: got < wanted,
    ">": lambda got, wanted: got > wanted,
    "<=": lambda got, wanted: got <= wanted,
    ">=": lambda got, wanted: got >= wanted,
    "=": lambda got, wanted: got == wanted,
}


@dataclass(slots=True)
class WallFilter:
    """Read by `parse`. Remembers what it found until an episode changes."""

    text: str = ""
    whole: list[Whole] = field(default_factory=list)
    roles: list[Part] = field(default_factory=list)
    illegal: bool = False
    words: list[re.Pattern[str]] = field(default_factory=list)
    without: list[re.Pattern[str]] = field(default_factory=list)
    _known: dict[str, tuple[int, bool, bool]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.whole or self.roles or self.illegal or self.words or self.without)

    def matches(self, episode: EpisodeView, store: Store) -> bool:
        """Whether it is to be shown."""
        known = self._known.get(episode.id)
        if known is None or known[:2] != (episode.revision, episode.live):
            known = (episode.revision, episode.live, self._holds(episode, store))
            self._known[episode.id] = known
        return known[2]

    def forget(self, store: Store) -> None:
        """What was found of episodes that are no longer known."""
        if len(self._known) > 2 * len(store.episodes) + 64:
            self._known = {name: known for name, known in self._known.items() if name in store.episodes}

    def _holds(self, episode: EpisodeView, store: Store) -> bool:
        if not all(holds(episode) for holds in self.whole):
            return False
        names = dict.fromkeys([*episode.roles, *(turn.role for turn in episode.turns), *episode.rewards])
        return any(self._plays(episode, role, store) for role in names or [""])

    def _plays(self, episode: EpisodeView, role: str, store: Store) -> bool:
        if not all(holds(episode, role) for holds in self.roles):
            return False
        if not (self.illegal or self.words or self.without):
            return True
        return any(self._says(turn, store) for turn in episode.turns if turn.role == role)

    def _says(self, turn: TurnView, store: Store) -> bool:
        if self.illegal and not turn.illegal:
            return False
        if not (self.words or self.without):
            return True
        asked = turn.messages[-1]["content"] if turn.messages else ""
        said = _plain(f"{turn.shown(store.decode)}\n{asked}")
        return all(word.search(said) for word in self.words) and not any(word.search(said) for word in self.without)


def parse(text: str) -> WallFilter:
    """Reads a filter. Raises `QueryError` for a term without a sense; there is no other way to go wrong."""
    made, at = WallFilter(text.strip()), 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        if found := FIELD.match(text, at):
            _field(made, found[1].lower(), found[2] if found[2] is not None else found[3])
        elif found := REWARD.match(text, at):
            made.roles.append(_reward(found[1], found[2]))
        else:
            found = TOKEN.match(text, at)
            assert found is not None  # something that isn't a space is there
            _word(made, found)
        at = found.end()
    return made


def _word(made: WallFilter, found: re.Match[str]) -> None:
    bare = found[4]
    if bare is None:
        negated, said, prefix = bool(found[1]), found[2], bool(found[3])
    elif bare.lower() == "illegal":
        made.illegal = True
        return
    elif bare.lower() in FLAGS:
        made.whole.append(FLAGS[bare.lower()])
        return
    else:
        negated = bare.startswith("-") and len(bare) > 1
        said = bare[1:] if negated else bare
        prefix = said.endswith("*")
    # punctuation says nothing, as in the search
    words = re.findall(r"\w+", _plain(said))
    if words:
        pattern = r"\b" + r"\W+".join(map(re.escape, words)) + ("" if prefix else r"\b")
        (made.without if negated else made.words).append(re.compile(pattern))


def _field(made: WallFilter, name: str, value: str) -> None:
    if not value:
        raise QueryError(f"{name}: needs a value, such as {'step:10-20' if name == 'step' else f'{name}:First'}")
    wanted = value.casefold()
    match name:
        case "role":
            made.roles.append(lambda _, role: _called(role, wanted))
        case "player":
            made.roles.append(lambda episode, role: _called(episode.roles.get(role, ""), wanted))
        case "type" | "task":
            made.whole.append(lambda episode: _called(episode.type, wanted) or _within(episode.type, wanted))
        case _:
            made.whole.append(_step(value))


def _called(name: str, wanted: str) -> bool:
    """Of several tasks a role is called `nim/First`: its own name is enough."""
    name = name.casefold()
    return name == wanted or name.endswith("/" + wanted)


def _within(name: str, wanted: str) -> bool:
    return name.casefold().startswith(wanted + "/")


def _step(value: str) -> Whole:
    steps = STEPS.fullmatch(value)
    if steps is None:
        raise QueryError(f"step:{value} is no step: write step:12, step:10-20 or step:10-")
    first = int(steps[1])
    last = first if steps[2] is None else int(steps[3]) if steps[3] else None
    return lambda episode: (
        episode.step is not None and episode.step >= first and (last is None or episode.step <= last)
    )


def _reward(sign: str, value: str) -> Part:
    try:
        wanted = float(value.replace("\N{MINUS SIGN}", "-"))
    except ValueError:
        raise QueryError(f"reward{sign}{value} compares with no number: write reward>0.5 or reward<=-1") from None
    compare = COMPARED[sign]
    return lambda episode, role: role in episode.rewards and compare(episode.rewards[role], wanted)


def _plain(text: str) -> str:
    """Small letters without accents, as the search has them."""
    if text.isascii():
        return text.lower()
    return "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
