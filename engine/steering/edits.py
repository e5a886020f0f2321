"""What a person changes of a run at work: prompts, hyperparameters, weights; each edit numbered and kept.

`Steering` holds the configuration in force. An edit reaches the next episodes and the next step through the arena,
the mixture and the trainer, all of which are told by `Run`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engine import config as configuration
from engine.arena import Arena
from engine.assembly import CHANGEABLE, FIXED, PROMPT, apply_edit, changed, check_biases
from engine.config import KEYS, Config, ConfigError
from engine.events import EditApplied
from engine.inference.tokenizer import Tokenizer
from engine.keys import Key
from engine.mixture import Mixture
from engine.types import REWARD_EDIT, RunError

APART = ("roles.*.prompt",)
"""Changed by `edit_role`, and shown with their text."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of the configuration that can change while the run is at work."""

    key: str
    """Dotted, such as `"train.learning_rate"`."""
    value: str
    """What is in force, as `Run.set` reads it."""
    wants: str
    """What a right value is, with its bounds: `"a number above 0 and at most 1"`."""
    help: str
    choices: tuple[str, ...] = ()
    optional: bool = False
    """Whether an empty text gives back what the task says, or the loss."""


class Steering:
    """The configuration in force, and how many edits led to it."""

    def __init__(self, config: Config, arena: Arena, mixture: Mixture) -> None:
        self.config = config
        self.edits = 0
        """The number of the last one."""
        self._arena, self._mixture = arena, mixture

    def prompt(self, role: str, text: str, step: int) -> EditApplied:
        """The edit that gives a role another prompt. Raises `RunError` for no such role."""
        if role not in self._arena.roles:
            raise RunError(f"no role {role!r}; this run has: {', '.join(self._arena.roles)}")
        return EditApplied(self.edits + 1, step, f"{PROMPT}{role}", self._arena.roles[role].system_prompt, text)

    def value(self, key: str, text: str, step: int, tokenizer: Tokenizer | None) -> EditApplied:
        """The edit that changes a key of the configuration. Raises `RunError` or `ConfigError`."""
        after = changed(self.config, key, text, self._arena)
        if tokenizer is not None:
            check_biases(after, tokenizer)
        before = _text(self.config, key, self._arena)
        return EditApplied(self.edits + 1, step, key, before, configuration.value_text(after, key))

    def apply(self, edit: EditApplied) -> None:
        self.config = apply_edit(edit, self.config, self._arena)
        self.edits = edit.number

    def reweigh(self) -> None:
        """Have the tasks' shares, from the next batch on, be those of the configuration."""
        weights = {name: part.weight for name, part in self.config.parts.items()}
        self._mixture.reweigh(weights, self._arena.played)

    def settings(self) -> list[Setting]:
        """All that can be set now, in the order of the schema."""
        names = {"roles": list(self._arena.roles), "rewards": _rewards(self.config, self._arena)}
        names["tasks"] = list(self.config.tasks)
        return [
            Setting(
                name,
                _in_force(self.config, name, self._arena),
                key.wants,
                key.description,
                key.choices,
                key.optional,
            )
            for key in KEYS
            if _can_change(key)
            for name in _named(key, names)
        ]


def _can_change(key: Key) -> bool:
    if key.name in APART or key.name in FIXED or not key.name.startswith(CHANGEABLE):
        return False
    return key.name.endswith(".weight") if key.name.startswith((REWARD_EDIT, "tasks.")) else True


def _named(key: Key, names: dict[str, list[str]]) -> Iterator[str]:
    """The key by the names there are for its `*`."""
    section, star, rest = key.name.partition(".*.")
    if not star:
        yield key.name
    for name in names.get(section, ()) if star else ():
        yield f"{section}.{name}.{rest}"


def _rewards(config: Config, arena: Arena) -> list[str]:
    """Reward functions by name: those of the tasks, and those the configuration adds."""
    own = [
        name for episode in arena.episodes.values() for name in (*episode.rubric.functions, *episode.comparisons)
    ]
    return list(dict.fromkeys([*own, *config.rewards]))


def _in_force(config: Config, key: str, arena: Arena) -> str:
    """A key's value in force: where the configuration says nothing, the role's own, or the loss's."""
    text = _text(config, key, arena)
    if text:
        return text
    section, _, rest = key.partition(".")
    value: Any = None
    if section == "roles":
        name, _, field = rest.rpartition(".")
        value = getattr(arena.roles[name], field)
    elif key in ("train.clip_low", "train.clip_high"):
        value = config.train.clip[key.endswith("high")]
    if isinstance(value, tuple | list):
        value = dict(value) if key.endswith("logit_bias") else list(value)
    return "" if value is None else configuration.inline(value)


def _text(config: Config, key: str, arena: Arena) -> str:
    """As `value_text`; of a reward the configuration doesn't name, its weight in the task's own rubric."""
    text = configuration.value_text(config, key)
    if not text and key.startswith(REWARD_EDIT):
        name = key.removeprefix(REWARD_EDIT).rpartition(".")[0]
        rubrics = [episode.rubric.weights for episode in arena.episodes.values()]
        weight = next((weights[name] for weights in rubrics if name in weights), 1.0)
        return configuration.inline(weight)
    return text


def before(edit: EditApplied) -> str:
    """What the edit's target was before it, as a new edit takes it."""
    if edit.before or edit.target.startswith(PROMPT):
        return edit.before
    try:
        key = configuration.key(edit.target)
    except ConfigError:
        return edit.before
    has_none = key.optional or key.kind is str or key.default is None
    return edit.before if has_none else configuration.inline(key.default)
