"""A run's configuration: what a preset's TOML file may say, with bounds and a sentence on each key.

The same schema checks presets, `--set` and edits, and is what a form in the app is made from.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from engine.keys import Key, keys


class ConfigError(ValueError):
    """What is wrong with a configuration: one line a problem, with the place and what would be right."""


class Section(BaseModel):
    # Strict: a quoted "1.0" is not a number, and 10.0 is not a count.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Moment = Annotated[float, Field(ge=0.0, lt=1.0)]


class ModelConfig(Section):
    source: str = Field(default="pocket", description="'pocket', a hub id, a folder in MLX format, or a GGUF file.")
    context: int = Field(default=4096, ge=16, description="Longest prompt and completion together, in tokens.")
    prefill_tokens: int = Field(default=8192, ge=16, description="Most prompt tokens computed in one tick.")
    rows: int = Field(default=128, ge=1, le=4096, description="Most completions decoded at once.")
    queue: int = Field(default=1024, ge=1, description="Most requests handed to the device; the others wait.")
    prefix_mb: int = Field(default=256, ge=0, description="Memory for keys and values of what was said before.")
    adapters_mb: int = Field(
        default=1024, ge=1, description="Memory for players' adapters; the least recently used move to disk."
    )


class TaskConfig(Section):
    name: str = Field(description="A built-in task, or './file.py:ClassName'.")
    options: dict[str, Any] = Field(default_factory=dict, description="Passed to the task.")


class PartConfig(Section):
    name: str = Field(default="", description="A task, as in task.name; NAME itself if left out.")
    options: dict[str, Any] = Field(default_factory=dict, description="Passed to the task.")
    weight: float = Field(
        default=1.0, ge=0.0, description="Its share of the episodes; 0 is a held-out set, only measured."
    )
    every: int = Field(
        default=0, ge=0, description="Its evaluations: after multiples of so many steps, first and last; 0 for all."
    )


class RewardConfig(Section):
    weight: float = Field(default=1.0, description="What it is multiplied by; 0 shows it and pays nothing.")
    function: str = Field(
        default="",
        description="A reward function, or './file.py:function'; if left out NAME, the task's own or one to add.",
    )
    roles: list[str] = Field(default_factory=list, description="Whose reward it adds to; empty for all that speak.")
    episodes: list[str] = Field(default_factory=list, description="In which types of episodes; empty for all.")
    options: dict[str, Any] = Field(default_factory=dict, description="Passed to the function.")


class RoleConfig(Section):
    prompt: str | None = Field(default=None, description="The role's system prompt; the task's own if left out.")
    temperature: float | None = Field(default=None, ge=0.0, le=5.0, description="1 samples as the model thinks.")
    max_tokens: int | None = Field(default=None, ge=1, description="Longest reply, in tokens.")
    top_p: float | None = Field(default=None, gt=0.0, le=1.0, description="Keep the likeliest tokens of this mass.")
    top_k: int | None = Field(default=None, ge=0, description="Keep this many likeliest tokens; 0 keeps all.")
    min_p: float | None = Field(
        default=None, ge=0.0, le=1.0, description="Drop tokens below this share of the top."
    )
    repetition_penalty: float | None = Field(
        default=None, ge=1.0, le=10.0, description="Above 1, tokens seen before become less likely."
    )
    logit_bias: dict[str, float] | None = Field(
        default=None, description="What is added to the logit of a token, by its text: { yes = 2.0 }."
    )
    stop: list[Annotated[str, Field(min_length=1)]] | None = Field(
        default=None, description="Texts that end the reply."
    )
    seconds: float | None = Field(default=None, gt=0.0, description="Longest time a reply may take.")
    constrained: bool | None = Field(
        default=None, description="Only answers that the task calls legal can be sampled."
    )
    tags: list[Annotated[str, Field(min_length=1)]] | None = Field(
        default=None, description="Skill tags, the most skilled last: each tree of rollouts draws one."
    )


class RunConfig(Section):
    steps: int = Field(default=100, ge=1, description="Optimiser steps until the run stops by itself.")
    seed: int = Field(default=0, ge=0, le=2**32 - 1, description="Fixes deals, openings and every sampled token.")
    episodes_per_step: int = Field(default=64, ge=1, description="Top-level episodes a step learns from.")
    max_staleness: int = Field(
        default=0, ge=0, description="How many versions behind a rollout may be; 0 plays and learns in turn."
    )
    on_publish: Literal["continue", "drain"] = Field(
        default="continue",
        description="Replies under way when the policy changes: 'continue' with the new one, or 'drain' first.",
    )


class LoRAConfig(Section):
    kind: Literal["lora", "dora", "full"] = Field(
        default="lora",
        description="'lora'; 'dora', which learns each output's magnitude beside; 'full', the whole weights.",
    )
    rank: int = Field(default=16, ge=1, le=512, description="Width of the adapter; 'full' has none.")
    scale: float = Field(
        default=2.0, gt=0.0, description="What the adapter's output is multiplied by (alpha / rank)."
    )
    rslora: bool = Field(
        default=False, description="Multiply by alpha / √rank instead, with the alpha of lora.scale: scale · √rank."
    )
    start: str = Field(
        default="",
        description="A folder with an adapter to begin from, in mlx-lm's or PEFT's format; empty for a fresh one.",
    )
    layers: list[str] = Field(
        default_factory=list, description="Names of the linear layers adapted, such as 'q_proj'; empty for all."
    )
    last_layers: int = Field(
        default=0, ge=0, description="Adapt so many of the model's blocks, the last ones; 0 adapts all."
    )


class TrainConfig(Section):
    optimiser: Literal["adamw", "adafactor"] = Field(
        default="adamw", description="'adafactor' keeps far less of past gradients in memory. Fixed in a run."
    )
    learning_rate: float = Field(default=1e-3, gt=0.0, le=1.0, description="The optimiser's step size.")
    warmup: int = Field(default=5, ge=0, description="Steps over which the learning rate rises from a tenth.")
    schedule: Literal["constant", "linear", "cosine"] = Field(
        default="constant", description="How the learning rate falls from the end of warmup to run.steps."
    )
    final_rate: Fraction = Field(
        default=0.0, description="Share of the learning rate that 'linear' and 'cosine' fall to."
    )
    weight_decay: float = Field(
        default=0.0, ge=0.0, description="Decay of what is learnt, times the learning rate, at each update."
    )
    betas: tuple[Moment, Moment] = Field(default=(0.9, 0.99), strict=False, description="AdamW's moments.")
    grad_clip: float = Field(default=1.0, gt=0.0, description="Largest norm of a step's gradient.")
    policy: float = Field(default=1.0, ge=0.0, description="Weight of the policy loss.")
    loss: Literal["ppo", "gspo", "cispo", "pg"] = Field(
        default="ppo", description="The policy loss: see docs/learning.md. 'gspo' goes with normaliser = 'grpo'."
    )
    clip_low: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="How far the ratio may fall below 1; if left out 0.2 for ppo, 3e-4 for gspo.",
    )
    clip_high: float | None = Field(
        default=None,
        ge=0.0,
        description="How far the ratio may rise above 1; if left out 0.2 for ppo, 4e-4 for gspo.",
    )
    ratio_cap: float = Field(default=5.0, gt=0.0, description="The most that a token's ratio counts in cispo.")
    sft: float = Field(
        default=0.0, ge=0.0, description="Weight of the mean −log π of turns whose advantage is above 0."
    )
    dpo: float = Field(
        default=0.0, ge=0.0, description="Weight of DPO on pairs that began alike and got different rewards."
    )
    dpo_beta: float = Field(
        default=0.1, gt=0.0, description="DPO: how strongly the policy is held to the reference."
    )
    normaliser: Literal["dapo", "grpo", "dr_grpo"] = Field(
        default="dapo", description="What the summed loss is divided by: see docs/learning.md."
    )
    kl: float = Field(default=0.0, ge=0.0, description="Weight of the divergence from the reference.")
    kl_reference: str = Field(
        default="base", description="The player kept close to, by train.kl and DPO, such as 'base' or 'average'."
    )
    kl_kind: Literal["k3", "forward"] = Field(
        default="k3",
        description="'k3' estimates KL(policy‖reference) on sampled tokens; 'forward' is KL the other way, exact.",
    )
    entropy: float = Field(default=0.0, ge=0.0, description="Weight of the entropy bonus.")
    minibatches: int = Field(default=1, ge=1, description="Optimiser updates one step's rollouts are split into.")
    average: Moment = Field(
        default=0.0, description="Decay a step of the adapter's running mean, a player to measure; 0 keeps none."
    )
    microbatch_tokens: int = Field(
        default=0,
        ge=0,
        description="Most padded tokens in one backward pass; 0 measures first what fits in memory.",
    )
    checkpoint_layers: bool = Field(
        default=False, description="Keep less of each layer for the backward pass and compute it once more there."
    )

    @property
    def clip(self) -> tuple[float, float]:
        """How far the ratio may fall below 1 and rise above it: what is set, or what the loss's paper has."""
        low, high = (3e-4, 4e-4) if self.loss == "gspo" else (0.2, 0.2)
        return low if self.clip_low is None else self.clip_low, high if self.clip_high is None else self.clip_high


class CreditConfig(Section):
    kind: Literal["rae", "grpo", "constant"] = Field(default="rae", description="How rewards become advantages.")
    decay: Fraction = Field(default=0.95, description="RAE: how slowly a baseline follows the rewards.")
    normalise: bool = Field(default=False, description="GRPO: divide by the group's standard deviation.")
    discount: Fraction = Field(default=1.0, description="Per turn of the role from the end of the episode.")


class PastConfig(Section):
    share: Fraction = Field(
        default=0.0, description="Share of the episodes in which all roles but one are played by an earlier self."
    )
    every: int = Field(default=10, ge=1, description="Steps between two snapshots of the policy to play against.")
    keep: int = Field(
        default=8, ge=1, le=64, description="Snapshots that are drawn from, the newest; older ones are deleted."
    )


class EvalConfig(Section):
    every: int = Field(default=10, ge=0, description="Steps between evaluations; 0 only before and after.")
    episodes: int = Field(default=200, ge=2, description="Episodes against each opponent.")
    metric: str = Field(default="", description="The metric that names the best checkpoint; empty keeps none.")
    goal: Literal["max", "min"] = Field(default="max", description="Whether more or less of it is better.")


class CheckpointConfig(Section):
    every: int = Field(default=1, ge=1, description="Steps between automatic checkpoints.")
    keep: int = Field(
        default=2, ge=1, description="Automatic checkpoints kept; best, manual and final ones always are."
    )


class Config(Section):
    """Everything a run is made of."""

    title: str = Field(default="", description="What Home shows.")
    teaches: str = Field(default="", description="One sentence: what there is to see.")
    task: TaskConfig | None = None
    tasks: dict[str, PartConfig] = Field(default_factory=dict)
    model: ModelConfig = ModelConfig()
    roles: dict[str, RoleConfig] = Field(default_factory=dict)
    rewards: dict[str, RewardConfig] = Field(default_factory=dict)
    run: RunConfig = RunConfig()
    lora: LoRAConfig = LoRAConfig()
    train: TrainConfig = TrainConfig()
    credit: CreditConfig = CreditConfig()
    past: PastConfig = PastConfig()
    eval: EvalConfig = EvalConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()

    @property
    def parts(self) -> dict[str, PartConfig]:
        """All that is played or measured, by what its names begin with: `[task]`, if there is one, by nothing."""
        alone = {} if self.task is None else {"": PartConfig(name=self.task.name, options=self.task.options)}
        return alone | {
            name: part.model_copy(update={"name": part.name or name}) for name, part in self.tasks.items()
        }

    @property
    def played(self) -> str:
        """What is trained on, in a word that will do as a file's name: `nim`, `nim-kuhn_poker`."""
        trained = [part.name for part in self.parts.values() if part.weight]
        return "-".join(Path(name.partition(":")[0]).stem for name in trained)[:40]

    @model_validator(mode="after")
    def _check_tasks(self) -> Config:
        if self.task is None and not self.tasks:
            raise PydanticCustomError("no_task", "no task")
        for name, part in self.tasks.items():
            if not re.fullmatch(r"[\w-]+", name):
                raise _misfit(f"tasks.{name}", "wants a name of letters, digits, _ and -: it stands before others")
            if self.task is not None and part.weight:
                raise _misfit(
                    f"tasks.{name}.weight",
                    "wants 0 for a held-out set beside [task], which is trained on alone; to train on several, "
                    "make each a [tasks.NAME]",
                )
            if part.every and self.eval.metric.startswith(f"{name}/"):
                raise _misfit(f"tasks.{name}.every", f"wants 0, for eval.metric is {self.eval.metric!r}")
        if self.task is None and not any(part.weight for part in self.tasks.values()):
            raise _misfit("tasks", "wants a weight above 0 for one of them at least, or nothing is trained on")
        return self


def _misfit(name: str, problem: str) -> PydanticCustomError:
    """What is wrong between several keys."""
    return PydanticCustomError("misfit", "{problem}", {"problem": f"{name}: {problem}"})


KEYS = tuple(keys(Config))
"""The schema, key by key."""


def key(name: str) -> Key:
    """The schema's key for a dotted name. `ConfigError` if there is none, naming the nearest."""
    for candidate in KEYS:
        if candidate.matches(name):
            return candidate
    inside = [candidate.name for candidate in KEYS if candidate.is_in(name)]
    if inside:
        raise ConfigError(f"{name}: is a section; its keys are {', '.join(inside)}")
    raise ConfigError(f"{name}: no such key{_nearest(name)}")


def load(path: Path) -> Config:
    """Reads a TOML file. Paths in it that start with `.` or `~` are meant from the file's folder.

    Raises `ConfigError` for a file that can't be read, isn't TOML (with the line), or doesn't fit the schema.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start})") from error
    try:
        mapping = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    return anchored(parse(mapping, str(path)), path.parent)


def parse(mapping: Mapping[str, Any], where: str) -> Config:
    """Checks a mapping as TOML gives it. `where` names its origin in `ConfigError`, one line a problem."""
    try:
        return Config.model_validate(dict(mapping))
    except ValidationError as error:
        lines = dict.fromkeys(f"{where}: {problem_of(detail)}" for detail in error.errors(include_url=False))
        raise ConfigError("\n".join(lines)) from error


def set_value(config: Config, name: str, text: str, where: str = "") -> Config:
    """The configuration with one key changed, its value read from text as the key's type asks.

    Text and choices are taken as they are, everything else as a TOML value; an optional key is
    emptied by an empty text. `ConfigError` as `parse`, starting with `where` if given.
    """
    try:
        return _with(config, [(name, text)])
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}" if where else f"{error}") from error


def value_text(config: Config, name: str) -> str:
    """A key's value as `set_value` would read it back; empty where there is none. `ConfigError` for no such key."""
    target = key(name)
    value: Any = config.model_dump(exclude_none=True)
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None or target.kind is str:
        return value or ""
    return inline(value)


def override(config: Config, assignments: Iterable[str]) -> Config:
    """Applies `key=value` texts, as `--set` takes them. Only together they have to be right."""
    pairs: list[tuple[str, str]] = []
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise ConfigError(f"--set {assignment}: wants key=value, such as train.learning_rate=3e-4")
        pairs.append((name.strip(), text.strip()))
    try:
        return _with(config, pairs)
    except ConfigError as error:
        raise ConfigError(f"--set: {error}") from error


def dump(config: Config) -> str:
    """The whole configuration as TOML, defaults included: `parse` gives the same configuration back."""
    values = config.model_dump(exclude_none=True)
    # Multi-line strings are easier to read, but TOML reads a carriage return in one as a plain newline.
    return tomli_w.dumps(values, multiline_strings="\\r" not in repr(values))


def save(config: Config, path: Path) -> None:
    """Writes `dump(config)` beside `path` and renames it, so that a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(dump(config), encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def read_value(target: Key, text: str) -> Any:
    """A value from text as the key's type asks, checked by nobody yet."""
    if text == "" and target.optional and target.kind is not object:
        return None
    if target.kind is str:
        return text
    if target.kind is bool:
        text = text.lower()
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # no TOML, thousands of digits, hundreds of brackets
        parsed = {}
    value = parsed["value"] if parsed.keys() == {"value"} else text
    if target.kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if target.kind is list and isinstance(value, str):
        return [item.strip() for item in value.split(",") if item.strip()]
    return value


def inline(value: Any) -> str:
    """A value as TOML in one line."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(inline(item) for item in value)}]"
    if isinstance(value, dict):
        pairs = ", ".join(f"{inline(name)} = {inline(item)}" for name, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    return tomli_w.dumps({"value": value}).removeprefix("value = ").strip()


def _with(config: Config, pairs: Iterable[tuple[str, str]]) -> Config:
    values = config.model_dump(exclude_unset=True)
    for name, text in pairs:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ConfigError(f"{name}: wants text in UTF-8, not {_shown(text)}") from error
        *sections, last = name.split(".")
        value = read_value(key(name), text)
        inner = values
        for section in sections:
            inner = inner.setdefault(section, {})
            if not isinstance(inner, dict):
                raise ConfigError(f"{name}: {section} is a value, not a table")
        inner[last] = value
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError(problem_of(error.errors(include_url=False)[0])) from error


def problem_of(detail: Any) -> str:
    """One of pydantic's error details as `key: what was wrong and what would be right`."""
    name = ".".join(part for part in detail["loc"] if isinstance(part, str))
    shown = _shown(detail["input"])
    match detail["type"]:
        case "extra_forbidden":
            return f"{name}: no such key{_nearest(name)}"
        case "model_type" | "dict_type" if not _is_key(name):
            return f"{name}: wants a table of keys, [{name}], not {shown}"
        case "misfit":
            return detail["msg"]
        case "no_task":
            return problem_of({"type": "missing", "loc": ("task",), "input": {}})
        case "missing" if isinstance(detail["loc"][-1], str):
            required = [k for k in KEYS if k.required and (k.name == name or k.is_in(name))]
            return "; ".join(f"{k.name}: missing, wants {k.wants}: {k.description}" for k in required)
    while "." in name and not _is_key(name):  # the fault is in one value of a table
        name = name.rpartition(".")[0]
    return f"{name}: wants {key(name).wants}, not {shown}"


def _is_key(name: str) -> bool:
    return any(candidate.matches(name) for candidate in KEYS)


def _shown(value: Any) -> str:
    shown = "true" if value is True else "false" if value is False else repr(value)
    return shown if len(shown) <= 60 else f"{shown[:59]}…"


def _nearest(name: str) -> str:
    """What to say after "no such key": the one nearest by its whole name or its last part, or its section's."""
    parts = name.split(".")
    given = parts[1] if len(parts) == 3 and parts[1] else "NAME"
    names = [
        candidate.name.replace("*", given if candidate.name.startswith(f"{parts[0]}.*.") else "NAME")
        for candidate in KEYS
    ]
    section, _, last = name.rpartition(".")
    by_last = {candidate.rpartition(".")[2]: candidate for candidate in reversed(names)}
    beside = {
        candidate.rpartition(".")[2]: candidate for candidate in names if candidate.rpartition(".")[0] == section
    }
    sections = {candidate.partition(".")[0]: candidate.partition(".")[0] for candidate in names if "." in candidate}
    everything = {candidate: candidate for candidate in names} | sections
    # In a section that exists a key is looked for by its own name, or "train.lr" would be nearest to "train.kl".
    tries = [(last, beside), (last, by_last)] if section and beside else [(name, everything), (last, by_last)]
    for asked, known in tries:
        for found in difflib.get_close_matches(asked, known, n=1, cutoff=0.7):
            return f"; did you mean {known[found]}?"
    return f"; {section} has {', '.join(beside)}" if section and beside else ""


def anchored(config: Config, folder: Path) -> Config:
    """The configuration with its paths, such as `./game.py:Game` and `model.gguf`, meant from a folder.

    Of the options of tasks and reward functions, texts that begin with `./`, `../` or `~/` are paths.
    """

    def absolute(text: str) -> str:
        if not text.startswith(("./", "../", "~")) and not text.endswith(".gguf"):
            return text
        return str(Path(os.path.abspath(folder / Path(text).expanduser())))

    def anywhere(value: Any) -> Any:
        if isinstance(value, dict):
            return {anywhere(key): anywhere(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [anywhere(inner) for inner in value]
        return absolute(value) if isinstance(value, str) and value.startswith(("./", "../", "~/")) else value

    def named(section: Any, key: str) -> Any:
        return section.model_copy(
            update={key: absolute(getattr(section, key)), "options": anywhere(section.options)}
        )

    task = config.task and named(config.task, "name")
    tasks = {name: named(part, "name") for name, part in config.tasks.items()}
    rewards = {name: named(reward, "function") for name, reward in config.rewards.items()}
    model = config.model.model_copy(update={"source": absolute(config.model.source)})
    start = config.lora.start and os.path.abspath(folder / Path(config.lora.start).expanduser())
    lora = config.lora.model_copy(update={"start": start})
    placed = {"task": task, "tasks": tasks, "rewards": rewards, "model": model, "lora": lora}
    return config.model_copy(update=placed)
