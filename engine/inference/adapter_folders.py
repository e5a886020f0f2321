"""Folders that hold one adapter, in mlx-lm's format or in that of Hugging Face's `peft`.

mlx-lm   adapters.safetensors        adapter_config.json
peft     adapter_model.safetensors   adapter_config.json
"""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.inference import peft
from engine.inference.linears import Parameters

CONFIG = "adapter_config.json"
WEIGHTS = {"mlx": "adapters.safetensors", "peft": "adapter_model.safetensors"}
PICKLED = "adapter_model.bin"


class AdapterError(ValueError):
    """An adapter that can't be read, used or written: which folder, what is wrong with it."""


def read(folder: Path) -> tuple[Parameters, dict[str, Any]]:
    """An adapter in either format: arrays and configuration as mlx-lm has them.

    Raises:
        AdapterError: there is none, or one in peft's format that can't be had here.
    """
    form = next((form for form, file in WEIGHTS.items() if (folder / file).exists()), None)
    if form is None:
        hint = f"; {PICKLED} is a pickle: save it with safetensors" if (folder / PICKLED).exists() else ""
        raise AdapterError(f"{folder}: no adapter there: neither {' nor '.join(WEIGHTS.values())}{hint}")
    try:
        config = json.loads((folder / CONFIG).read_bytes())
        arrays = mx.load(str(folder / WEIGHTS[form]))
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: of MLX
        raise AdapterError(f"{folder}: the adapter there can't be read: {error}") from error
    if not isinstance(config, dict) or not isinstance(config.get("lora_parameters", {}), dict):
        raise AdapterError(f"{folder / CONFIG}: isn't a configuration of an adapter")
    assert isinstance(arrays, dict)
    if form == "mlx":
        return arrays, config
    try:
        return peft.imported(arrays, config)
    except ValueError as error:
        raise AdapterError(f"{folder}: {error}") from error


def write(folder: Path, parameters: Parameters, config: dict[str, Any], form: str, base: str = "") -> None:
    """Put an adapter, as mlx-lm has it, into a new folder in one of the formats `WEIGHTS` has.

    `base` names the model it belongs to, which peft's format asks for.

    Raises:
        AdapterError: there is something in the folder, it can't be written, or it can't be had in that format.
    """
    folder = folder.absolute()  # "." has no name to put a draft beside
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise AdapterError(f"{folder}: there is something already; name a folder that is new or empty")
    try:
        if form == "peft":
            parameters, config = peft.exported(parameters, config, base)
    except ValueError as error:
        raise AdapterError(f"{folder}: {error}") from error
    draft = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}")
    try:
        draft.mkdir(parents=True)
        made_by = {"mlx": "mlx", "peft": "pt"}[form]
        mx.save_safetensors(str(draft / WEIGHTS[form]), parameters, metadata={"format": made_by})
        (draft / CONFIG).write_text(json.dumps(config, indent=1), encoding="utf-8")
        draft.replace(folder)
    except (OSError, RuntimeError) as error:
        raise AdapterError(f"{folder}: could not be written: {error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def described(parameters: Parameters) -> str:
    """Which layers an adapter has, in words."""
    layers = {name.rpartition(".")[0] for name in parameters}
    names = sorted({layer.rpartition(".")[2] for layer in layers})
    blocks = peft.blocks(layers)
    where = f" of the blocks {blocks[0]} to {blocks[-1]}" if blocks else ""
    return f"It has {', '.join(names)}{where}: lora.layers and lora.last_layers choose which are adapted here"
