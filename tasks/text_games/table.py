"""One TextArena environment in play, apart from all others. TextArena is imported when one is first wanted."""

from __future__ import annotations

import difflib
import random
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

from engine import TaskError

NEEDS = {
    "nltk": "NLTK's word lists, which it downloads",
    "word_lists": "NLTK's word lists, which it downloads",
    "Jury": "a jury of language models on the network",
    "OpenRouterAgent": "a language model on the network as its game master",
}
"""What an environment whose source names this can't be made without; such ones are refused."""


def arena() -> Any:
    """TextArena. Importing it draws nothing and asks nobody."""
    try:
        import textarena
    except ImportError as error:
        raise TaskError("textarena: needs TextArena: pip install 'selfplay-tui[games]'") from error
    return textarena


def check(name: str, players: int) -> None:
    """Raises `TaskError` unless this environment can be played by so many."""
    known = arena().envs.registration.ENV_REGISTRY
    if name not in known:
        near = difflib.get_close_matches(name, known, 3) or [f"{len(known)} others, such as TicTacToe-v0"]
        raise TaskError(f"textarena: option 'env': no environment {name!r}; there is {', '.join(near)}")
    try:
        spec = find_spec(known[name].entry_point.partition(":")[0])
        source = Path(spec.origin).read_text("utf-8") if spec and spec.origin else ""
        need = next((need for word, need in NEEDS.items() if word in source), None)
        if need is None:
            Table(name, players, random.Random(0)).observe()
    except Exception as error:  # an environment says in many ways that it is broken, or isn't for so many
        said = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise TaskError(f"textarena: option 'env': {name!r} can't be played here by {players}: {said}") from error
    if need is not None:
        raise TaskError(f"textarena: option 'env': {name!r} needs {need}")


class Table:
    """An environment that has begun.

    Environments draw from Python's and NumPy's global generators. Each has states of its own for these, which are
    in their place while it acts: so many may be played in turns in one thread, and each is the same for the same
    `rng`.
    """

    def __init__(self, name: str, players: int, rng: random.Random) -> None:
        import numpy

        seed = rng.getrandbits(31)
        self._python = random.Random(seed).getstate()
        self._numpy = numpy.random.RandomState(seed).get_state()
        self.ruled_out: list[int] = []
        """Who made a move that the environment ruled invalid, once for each."""
        with self._apart():
            self.env = self.inner = arena().make(name)
            while isinstance(self.inner, arena().Wrapper):
                self.inner = self.inner.env
            self.env.reset(num_players=players, seed=seed)
        self._watch(self.inner.state)

    def observe(self) -> tuple[int, list[tuple[int, str, str]]]:
        """Who is to move, and what they haven't been told yet: (sender, text, kind), the game being −1."""
        with self._apart():
            player, told = self.inner.get_observation()
        return player, [(sender, str(text), getattr(kind, "name", str(kind))) for sender, text, kind in told]

    def step(self, action: str) -> bool:
        """Whether it is over after this. How an action is read is the environment's affair, wrappers included."""
        with self._apart():
            done, _ = self.env.step(action=action)
        return done

    def rewards(self) -> dict[int, float] | None:
        """What each player gets, or None if the environment doesn't say for all."""
        with self._apart():
            rewards, _ = self.env.close()
        players = range(self.inner.state.num_players)
        return {player: float(rewards[player]) for player in players} if {*players} <= {*(rewards or ())} else None

    def reason(self) -> str:
        return str(self.inner.state.game_info[0].get("reason", ""))

    def name(self, player: int) -> str:
        return str(self.inner.state.role_mapping.get(player, f"Player {player}"))

    def _watch(self, state: Any) -> None:
        rule_out = state.set_invalid_move

        def noted(*args: Any, **kwargs: Any) -> Any:
            self.ruled_out.append(state.current_player_id)
            return rule_out(*args, **kwargs)

        state.set_invalid_move = noted

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Within, the environment has its own chance, and what it prints goes nowhere."""
        import numpy

        outside = random.getstate(), numpy.random.get_state()
        random.setstate(self._python)
        numpy.random.set_state(self._numpy)
        try:
            with redirect_stdout(StringIO()):
                yield
        finally:
            self._python, self._numpy = random.getstate(), numpy.random.get_state()
            random.setstate(outside[0])
            numpy.random.set_state(outside[1])
