"""A fast BLAS gets under MLX, and whatever is in the way is said and never a crash."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from engine.inference import blas

LINUX = pytest.mark.skipif(not (sys.platform == "linux" and blas._cpu_backend()), reason="only MLX on a Linux CPU")
REPORT = "print(json.dumps([loaded.name, loaded.warning, loaded.measure(256)]))"


def python(*lines: str, **environment: str) -> list:
    """Run lines in a fresh interpreter, where MLX isn't imported yet; what the last one prints."""
    lines = ("import json, sys", "from engine.inference import blas", *lines)
    out = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return json.loads(out.stdout.splitlines()[-1])


@LINUX
@pytest.mark.skipif(importlib.util.find_spec(blas.PACKAGE) is None, reason="needs the extra [cpu] on x86")
def test_the_packaged_openblas_is_used_and_much_faster_than_the_reference(tmp_path):
    no_system = "blas.SYSTEM_LIBRARY = 'libnonesuch.so'"
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    name, warning, fast = python(no_system, "loaded = blas.load()", REPORT, **cache)
    assert (name, warning) == ("OpenBLAS (ngsolve-openblas)", "")
    links = sorted(path.name for path in tmp_path.rglob("*.so*"))
    assert len(links) == 3
    assert "libgfortran.so.5" in links
    name, warning, slow = python("import mlx.core", "loaded = blas.load()", REPORT)
    assert "imported before" in warning
    assert fast > 3 * slow


@LINUX
@pytest.mark.parametrize(
    ("obstacle", "said"),
    [
        ("blas.PACKAGE = 'nonesuch_openblas'", "nonesuch-openblas is not installed"),
        ("blas._runtime_library = lambda stem: (_ for _ in ()).throw(LookupError('no ' + stem))", "no libgfortran"),
        ("import pathlib; blas._links_folder = lambda links: pathlib.Path('/nonesuch')", "/nonesuch"),
    ],
)
def test_without_a_usable_openblas_it_works_slowly_and_says_why(obstacle, said):
    name, warning, speed = python(
        "blas.SYSTEM_LIBRARY = 'libnonesuch.so'", obstacle, "loaded = blas.load()", REPORT
    )
    assert name == "reference BLAS"
    assert said in warning
    assert "libnonesuch.so" in warning
    assert speed > 0


@LINUX
def test_the_number_of_threads_is_one_unless_the_user_says_otherwise():
    show = "import os; print(json.dumps([os.environ['OPENBLAS_NUM_THREADS'], loaded.set_threads(1)]))"
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    os.environ.pop("OPENBLAS_NUM_THREADS", None)
    try:
        assert python("loaded = blas.load()", show)[0] == "1"
    finally:
        os.environ.update(environment)
    assert python("loaded = blas.load()", show, OPENBLAS_NUM_THREADS="2") == ["2", False]


def test_elsewhere_there_is_nothing_to_do(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert blas.load.__wrapped__().warning == ""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(blas, "BACKEND_PACKAGE", "mlx-nonesuch")
    assert blas.load.__wrapped__().warning == ""
