"""What there is to choose from: presets and runs, a line each."""

from __future__ import annotations

import time
from pathlib import Path

import presets
from engine import config as configuration
from engine.config import ConfigError
from engine.summaries import RunSummary, summaries
from tui.interface import PresetInfo, RunInfo


def preset_infos() -> list[PresetInfo]:
    return [_preset_info(preset) for preset in presets.available().values()]


def _preset_info(preset: presets.Preset) -> PresetInfo:
    try:
        config = configuration.load(preset.path)
    except ConfigError as error:
        return PresetInfo(preset.name, source=preset.source, problem=str(error).splitlines()[0])
    return PresetInfo(
        name=preset.name,
        title=config.title or preset.name,
        teaches=config.teaches,
        model=config.model.source,
        source=preset.source,
    )


def run_infos(runs_dir: Path) -> list[RunInfo]:
    return [run_info(item) for item in summaries(runs_dir)]


def run_info(item: RunSummary) -> RunInfo:
    config = item.config
    metric = config.eval.metric if config else ""
    return RunInfo(
        name=item.name,
        folder=item.folder,
        state=item.state,
        title=config.title or config.played if config else "",
        step=item.step,
        steps=item.steps,
        metric=metric,
        value=item.last.get(metric),
        when=_ago(time.time() - item.updated) if item.updated else "",
        updated=item.updated,
        reason=item.reason,
        problem=item.problem or None,
    )


def _ago(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return "just now"
