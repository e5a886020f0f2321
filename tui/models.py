"""The models at hand, what they need, and where to get others: `selfplay-tui models`."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import presets
from engine import config as configuration
from engine.config import ConfigError, LoRAConfig, ModelConfig, TrainConfig
from engine.inference import facts, hub
from engine.inference.estimate import Estimate, estimate
from engine.inference.facts import WEIGHT_FILES, Facts, Machine
from tui import weights, words
from tui.text import fit, one_line, width

CONTEXT = 2048
"""Tokens of prompt and completion for which memory is told, if the model can take as many."""

OF_TOKENS = ("keys and values", "a backward pass")
POCKET = "pocket"
GGUF = ".gguf"
HEADINGS = ("model", "parameters", "stored as", "on disk", "needed here", "")
RIGHT = (1, 3, 4)
"""Columns of numbers."""


@dataclass(frozen=True)
class Model:
    """One that can be a source: here, or named by a preset."""

    source: str
    path: Path | None = None
    facts: Facts | None = None
    problem: str = ""
    """Why there are no facts."""
    presets: list[str] = field(default_factory=list)
    """The names of those that use it."""

    @property
    def tokens(self) -> int:
        own = self.facts.context if self.facts else 0
        return min(own, CONTEXT) if own else CONTEXT


# Commands


def list_all(as_json: bool) -> int:
    """Prints every model at hand, then those that presets name and aren't."""
    machine = _machine()
    models = list(available(Path.cwd()))
    if as_json:
        print(json.dumps({"machine": _machine_values(machine), "models": [values(m, machine) for m in models]}))
        return 0
    print("\n".join(table([HEADINGS, *(row(model, machine) for model in models)])))
    for model in models:
        if model.problem and model.path:
            print(f"\n{one_line(model.source)}: {one_line(model.problem)}")
    print(
        f"\nNeeded: weights, keys and values of {CONTEXT:,} tokens and learning from them. {_here(machine)}",
        file=sys.stderr,
    )
    return 0


def show(source: str, as_json: bool) -> int:
    """Prints what one model's files say; returns 1 if there is no such model here."""
    model = look(source)
    machine = _machine()
    if as_json:
        print(json.dumps({"machine": _machine_values(machine), **values(model, machine)}))
    elif model.facts:
        print("\n".join(table(details(model, model.facts, machine), right=())))
    if model.facts:
        return 0
    print(f"selfplay-tui: {one_line(source)}: {one_line(model.problem)}", file=sys.stderr)
    return 1


def fetch(source: str) -> int:
    """Downloads a model, with the hub's own progress bars on stderr; returns 1 if it can't be had."""
    if source == POCKET or Path(source).expanduser().exists():
        print(f"selfplay-tui: {one_line(source)} is here already", file=sys.stderr)
        return 0
    try:
        if not hub.is_id(source):
            raise hub.HubError(f"{source!r} is no hub id, such as 'mlx-community/SmolLM2-135M-Instruct'")
        found = hub.download(source, check_room=True)
    except hub.HubError as error:
        print(f"selfplay-tui: {one_line(str(error))}", file=sys.stderr)
        return 1
    if found.obstacle:
        print(f"selfplay-tui: {one_line(found.obstacle)}; this is the local cache's copy", file=sys.stderr)
    print(found.folder)
    return show(source, as_json=False)


# Models


def available(folder: Path) -> Iterator[Model]:
    """The embedded model, those in a folder, those in the hub's cache, and those that presets name."""
    named = _named_by_presets()
    sources: list[tuple[str, Path | None]] = [(POCKET, _pocket()), *_in_folder(folder), *hub.cached()]
    for source, path in sources:
        yield _model(source, path, named.pop(source, []))
    for source, users in named.items():
        yield look(source, users)


def look(source: str, users: list[str] | None = None) -> Model:
    """One source, without asking the hub."""
    if source == POCKET:
        return _model(source, _pocket(), users)
    return _model(source, hub.folder(source) if hub.is_id(source) else Path(source).expanduser(), users)


def _model(source: str, path: Path | None, users: list[str] | None = None) -> Model:
    users = users or []
    if path is None:
        return Model(source, None, None, f"not here; `selfplay-tui models fetch {source}` gets it", users)
    try:
        there = path.exists()
    except OSError as error:  # a name that is too long, or a folder that may not be looked into
        return Model(source, None, None, f"{path}: {error.strerror or error}", users)
    if not there:
        return Model(source, None, None, f"there is no {path}", users)
    if path.is_dir() and not (path / "config.json").exists():
        return Model(source, path, None, f"{path} has no config.json, so it isn't a model in MLX format", users)
    try:
        return Model(source, path, facts.read(path.absolute()), "", users)
    except Exception as error:  # whatever the files hold
        return Model(source, path, None, str(error) or type(error).__name__, users)


def _pocket() -> Path:
    import engine

    return Path(engine.__file__).parent / "pocket"


def _in_folder(folder: Path) -> Iterator[tuple[str, Path]]:
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return
    for path in paths:
        with contextlib.suppress(OSError):  # what may not be looked into isn't at hand
            if path.suffix == GGUF or ((path / "config.json").is_file() and list(path.glob(WEIGHT_FILES))):
                yield f"./{path.name}", path


def _named_by_presets() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for preset in presets.available().values():
        try:
            source = configuration.load(preset.path).model.source
        except ConfigError:
            continue
        found.setdefault(source, []).append(preset.name)
    return found


# Words


def row(model: Model, machine: Machine) -> tuple[str, ...]:
    """One line of the list, as `HEADINGS` names it."""
    name = one_line(model.source)
    if model.facts is None:
        size = weights.weights(model.source)
        about = f"about {words.memory(size)}" if size and not model.path else ""
        return name, "", "", about, "", "can't be used" if model.path else "not here"
    need = _estimate(model.facts, model.tokens, machine)
    return (
        name,
        words.count(model.facts.parameters),
        one_line(model.facts.quantisation),
        words.memory(model.facts.disk),
        words.memory(need.most),
        need.fit(machine),
    )


def details(model: Model, found: Facts, machine: Machine) -> list[tuple[str, str]]:
    """What `show` tells, a name and a text a line."""
    tokens = model.tokens
    need = _estimate(found, tokens, machine)
    parts = {
        f"{name} of {tokens:,} tokens" if name in OF_TOKENS else name: size for name, size in need.parts.items()
    }
    ends = ", ".join(
        f"{one_line(text)} ({token})" if text else str(token) for token, text in found.eos_tokens.items()
    )
    return [
        ("model", one_line(model.source)),
        ("path", one_line(str(found.path))),
        ("architecture", one_line(found.architecture)),
        ("parameters", f"{found.parameters:,}"),
        ("stored as", f"{one_line(found.quantisation)}, {words.memory(found.disk)}"),
        ("context", f"{found.context:,} tokens" if found.context else "not told"),
        ("chat template", "yes" if found.chat_template else "none: not a chat model, can't be used"),
        ("end of turn", ends or "not told"),
        *([("presets", ", ".join(model.presets))] if model.presets else []),
        ("memory", ", ".join(f"{name} {words.memory(size)}" for name, size in parts.items())),
        ("fit", f"{need.fit(machine)}: {words.memory(need.most)} needed. {_here(machine)}"),
    ]


def values(model: Model, machine: Machine) -> dict[str, Any]:
    """The same for a program; sizes in bytes."""
    found, tokens = model.facts, model.tokens
    told: dict[str, Any] = {"source": model.source, "present": found is not None, "presets": model.presets}
    if found is None:
        return told | {"problem": model.problem}
    need = _estimate(found, tokens, machine)
    return told | {
        "path": str(found.path),
        "architecture": found.architecture,
        "parameters": found.parameters,
        "quantisation": found.quantisation,
        "context": found.context or None,
        "chat_template": found.chat_template,
        "eos_tokens": list(found.eos_tokens),
        "disk": found.disk,
        "weights": need.weights,
        "kv": need.kv,
        "training": need.adapters + need.learner + need.microbatch,
        "tokens": tokens,
        "needed": need.most,
        "fit": need.fit(machine),
    }


def _estimate(found: Facts, tokens: int, machine: Machine) -> Estimate:
    """Of one conversation of so many tokens, played and learnt from."""
    model, train = ModelConfig(rows=1, context=tokens), TrainConfig(microbatch_tokens=tokens)
    return estimate(found, machine.on_cpu, model, LoRAConfig(), train)


def table(rows: list[tuple[str, ...]] | list[tuple[str, str]], right: tuple[int, ...] = RIGHT) -> list[str]:
    """Columns as wide as their widest cell."""
    widths = [max(width(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            fit(cell, cells, "right" if column in right else "left")
            for column, (cell, cells) in enumerate(zip(each, widths, strict=True))
        ).rstrip()
        for each in rows
    ]


def _machine() -> Machine:
    from engine.inference import models

    return models.machine()


def _machine_values(machine: Machine) -> dict[str, Any]:
    return {"memory": int(machine.memory), "device": "cpu" if machine.on_cpu else "gpu"}


def _here(machine: Machine) -> str:
    device = "CPU, where weights become float32" if machine.on_cpu else "GPU"
    return f"This machine has {words.memory(machine.memory)} ({device})"
