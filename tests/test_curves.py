"""The script that draws learning curves: what it reads from a run, and where it puts the points."""

from __future__ import annotations

import importlib.util
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from engine import config
from engine.events import EvaluationFinished
from engine.store import Store

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("curves", ROOT / "docs" / "curves.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["curves"] = module
    spec.loader.exec_module(module)
    return module


def a_run(folder: Path, seed: int, evaluations: dict[int, dict[str, float]]) -> Path:
    with Store.create(folder) as store:
        for step, metrics in evaluations.items():
            if step:
                store.record_step(step, step, 1.5, {}, [])
            store.record_evaluation(EvaluationFinished(step, metrics), [])
    config.save(config.parse({"task": {"name": "nim"}, "run": {"seed": seed}}, "test"), folder / "config.toml")
    return folder


def test_a_line_goes_through_every_evaluation(script, tmp_path):
    values = [0.25, 0.75, 0.5]
    run = a_run(tmp_path, 3, {step: {"win": v, "other": 0.0} for step, v in zip((0, 10, 40), values, strict=True)})
    picture = ET.fromstring(script.svg([script.read(run)], ["win"], "Nim & co"))
    [line] = picture.findall(".//{*}polyline")
    at = np.array([[float(part) for part in pair.split(",")] for pair in line.attrib["points"].split()])
    assert np.polyfit(at[:, 0], [0, 10, 40], 1, full=True)[1] < 1e-2  # both axes are linear
    assert np.polyfit(at[:, 1], values, 1, full=True)[1] < 1e-5
    assert at[1, 1] < at[2, 1] < at[0, 1]  # more is higher up
    texts = [text.text for text in picture.findall(".//{*}text")]
    assert {"Nim & co", "win", "seed 3", "step"} <= set(texts)


def test_axes_are_labelled_with_what_lies_there(script, tmp_path):
    run = a_run(tmp_path, 0, {0: {"win": 0.0}, 100: {"win": 1.0}})
    text = script.svg([script.read(run)], ["win"], levels=[0.5])
    height = {label: float(y) for y, label in re.findall(r'y="([\d.]+)" dy="4" text-anchor="end">([\d.]+)<', text)}
    assert {"0", "0.2", "1"} <= height.keys()
    assert f"{height['0']}" in re.findall(r'points="52.0,([\d.]+) ', text)
    middle = (height["0"] + height["1"]) / 2
    assert float(re.findall(r'd="M52 ([\d.]+)H\d+" stroke="#333"', text)[0]) == pytest.approx(middle, abs=0.1)


def test_a_metric_has_a_colour_and_a_seed_a_dash(script, tmp_path):
    runs = [a_run(tmp_path / f"{n}", n, {0: {"a": 0.1, "b": 0.2}, 5: {"a": 0.3, "b": 0.1}}) for n in (1, 2)]
    lines = ET.fromstring(script.svg([script.read(run) for run in runs], ["a", "b"])).findall(".//{*}polyline")
    looks = [(line.attrib["stroke"], line.attrib["stroke-dasharray"]) for line in lines]
    assert len(set(looks)) == 4
    assert len({colour for colour, _ in looks}) == len({dash for _, dash in looks}) == 2


def test_the_table_has_the_ends_and_the_extremes(script, tmp_path):
    run = a_run(tmp_path, 7, {0: {"win": 0.5}, 10: {"win": 0.9}, 20: {"win": 0.8}})
    assert script.table([script.read(run)], ["win"]).splitlines()[2] == (
        "| 7 | 20 | 3 | `win` | 0.500 | 0.800 | 0.500 (step 0) | 0.900 (step 10) |"
    )


def test_a_metric_that_was_not_measured_is_named_with_those_that_were(script, tmp_path):
    run = a_run(tmp_path, 0, {0: {"win": 0.5, "draw": 0.1}})
    with pytest.raises(ValueError, match="no metric 'wins' in every evaluation; there are: win, draw"):
        script.svg([script.read(run)], ["wins"])


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.03, 0.71), (-2.0, 3.0), (0.8, 0.81), (0, 500), (0, 7)])
def test_ticks_are_few_round_and_enclose_the_data(script, low, high):
    found = script.ticks(low, high)
    assert 4 <= len(found) <= 9
    assert found[0] <= low < high <= found[-1]
    steps = np.diff(found)
    assert np.allclose(steps, steps[0])
    assert round(steps[0] / 10 ** np.floor(np.log10(steps[0] * 1.0000001)), 6) in (1, 2, 5)
