"""From a configuration and a task to an arena, and what an edit changes of both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from engine import config as configuration
from engine.arena import Arena
from engine.config import Config, ConfigError, RoleConfig
from engine.credit import ConstantCredit, CreditAssigner, GRPOCredit, RAECredit
from engine.events import EditApplied
from engine.inference.constraints import bias_of
from engine.inference.tokenizer import Tokenizer
from engine.rewards.settings import setting
from engine.task import Task, TaskError
from engine.types import POLICY, REWARD_EDIT, RunError, settled

PROMPT = "role "
"""An edit of a role's prompt has this before the role's name as its target; any other, a configuration key."""

CHANGEABLE = (
    "train.", "roles.", "rewards.", "tasks.", "past.", "eval.", "checkpoint.",
    "run.steps", "run.episodes_per_step", "credit.discount",
)  # fmt: skip
"""What may change while a run goes on."""
FIXED = {"train.optimiser": "the moments of one optimiser mean nothing to the other"}
"""What may not for all that, and why."""


def arena_of(config: Config, task: Task) -> Arena:
    """The task's arena as configured.

    Raises `TaskError` if the configuration names a role or an episode the task hasn't, or a reward there isn't.
    """
    arena = Arena(credit=_credit(config), batch_size=config.run.episodes_per_step, seed=config.run.seed)
    task.setup(arena)
    arena.own_roles = dict(arena.roles)
    _check_roles(config, arena)
    _configure_roles(config, arena)
    arena.rewards = {name: setting(name, table, arena) for name, table in config.rewards.items()}
    return arena


def folded(config: Config, edits: Iterable[EditApplied]) -> Config:
    """The configuration that was in force after these edits of it."""
    for edit in edits:
        if edit.target.startswith(PROMPT):
            role = edit.target.removeprefix(PROMPT)
            changed = config.roles.get(role, RoleConfig()).model_copy(update={"prompt": edit.after})
            config = config.model_copy(update={"roles": {**config.roles, role: changed}})
        else:
            config = configuration.set_value(config, edit.target, edit.after)
    return config


def apply_edit(edit: EditApplied, config: Config, arena: Arena) -> Config:
    """Put an edit in force: the next episodes of `arena` are played under it. Returns the changed configuration."""
    config = folded(config, [edit])
    if edit.target.startswith(PROMPT):
        role = edit.target.removeprefix(PROMPT)
    else:
        role = _named(edit.target) if edit.target.startswith("roles.") else ""
    if role:
        _configure_roles(config, arena)
        arena.edits[role] = edit.number
    if edit.target.startswith(REWARD_EDIT):
        name = _named(edit.target)
        table = config.rewards[name]
        known = arena.rewards.get(name) or setting(name, table, arena)
        arena.rewards[name] = replace(known, weight=table.weight, edit=edit.number)
    arena.credit.discount = config.credit.discount
    return config


def changed(config: Config, key: str, value: str, arena: Arena) -> Config:
    """A run's configuration with one key changed.

    Raises `RunError` where it can't be in a run, `ConfigError` for a key or value there is not.
    """
    if not key.startswith(CHANGEABLE):
        raise RunError(f"{key} cannot change while a run goes on; these can: {', '.join(CHANGEABLE)}")
    if key.startswith("tasks."):
        _check_task(key, config)
    after = configuration.set_value(config, key, value)
    if key in FIXED and configuration.value_text(after, key) != configuration.value_text(config, key):
        raise RunError(f"{key} cannot change while a run goes on: {FIXED[key]}. Start a new run with it")
    try:
        _check_roles(after, arena)
        if key.startswith(REWARD_EDIT):
            if not key.endswith(".weight"):
                raise RunError(f"{key} cannot change while a run goes on: of a reward only its weight can")
            setting(_named(key), after.rewards[_named(key)], arena)
    except TaskError as error:
        raise RunError(f"{error}") from error
    return after


def check_biases(config: Config, tokenizer: Tokenizer) -> None:
    """`ConfigError` for a role's `logit_bias` that names a text which isn't one token of the model."""
    for name, role in config.roles.items():
        try:
            bias_of(tokenizer, tuple((role.logit_bias or {}).items()))
        except ValueError as error:
            raise ConfigError(f"roles.{name}.{error}") from error


def distortions(arena: Arena) -> list[str]:
    """A sentence for each role that learns from tokens of another distribution than the learner computes."""
    return [
        f"role {whose} samples with {', '.join(f'{name}={getattr(role, name)}' for name in names)}: "
        "the learner computes the plain distribution, so its ratios are biased"
        for whose, role in arena.roles.items()
        if role.player == POLICY and role.temperature > 0.0 and (names := role.sampling.distortions)
    ]


def _named(key: str) -> str:
    """Whose key it is: the NAME of `roles.NAME.temperature`."""
    return key.split(".")[1]


def _check_roles(config: Config, arena: Arena) -> None:
    for name in config.roles:
        if name not in arena.roles:
            raise TaskError(f"[roles.{name}]: {config.played} has no such role; it has: {', '.join(arena.roles)}")


def _check_task(key: str, config: Config) -> None:
    """Of a task only its share can change, and only among those that the run began with."""
    name, _, field = key.removeprefix("tasks.").partition(".")
    if name not in config.tasks:
        known = ", ".join(config.tasks) or "[task] alone"
        raise RunError(f"{key} cannot change while a run goes on: it has no task {name!r}, but {known}")
    if field != "weight":
        raise RunError(f"{key} cannot change while a run goes on: of a task only its weight can")


def _configure_roles(config: Config, arena: Arena) -> None:
    """Put what the configuration says of roles over what the task says."""
    for name, role in config.roles.items():
        changes = role.model_dump(exclude_none=True)
        if "prompt" in changes:
            changes["system_prompt"] = changes.pop("prompt")
        arena.roles[name] = replace(arena.own_roles[name], **settled(changes))


def _credit(config: Config) -> CreditAssigner:
    credit = config.credit
    match credit.kind:
        case "rae":
            return RAECredit(credit.decay, credit.discount)
        case "grpo":
            return GRPOCredit(credit.normalise, credit.discount)
        case "constant":
            return ConstantCredit(credit.discount)
