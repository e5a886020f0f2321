"""What a run needs of this machine, checked and measured: `selfplay-tui doctor`."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import platform
import shutil
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tui import words

PATIENCE = 3.0
"""Seconds the network is given to answer."""

SLOW_PRODUCTS = 20.0
"""GFLOP/s below which matrix products are the bottleneck: a reference BLAS gives 3 to 5, a fast one 50 and more."""

LITTLE_MEMORY = 2e9
LITTLE_DISK = 1e9


class Verdict(StrEnum):
    OK = "ok"
    WARN = "warn"
    """Works, but worse than it could."""
    MISSING = "missing"
    """A run can't be started."""


@dataclass(frozen=True, slots=True)
class Finding:
    verdict: Verdict
    subject: str
    text: str
    """What was found, and if it isn't right, what to do about it."""


def main(runs_dir: Path) -> int:
    """Prints every finding as it is made; returns 0 if a run can be started here, else 1."""
    able = True
    for finding in findings(runs_dir):
        print(f"{finding.verdict:<8} {finding.subject:<15} {finding.text}", flush=True)
        able = able and finding.verdict is not Verdict.MISSING
    print("\nReady: `selfplay-tui run nim-pocket`" if able else "\nNot ready: see what is missing above")
    return 0 if able else 1


def findings(runs_dir: Path) -> Iterator[Finding]:
    """Each check's finding in turn. A check that itself breaks is a finding too."""
    import presets

    checks: list[tuple[str, Callable[[], Finding]]] = [
        ("Python", python),
        ("platform", machine),
        ("MLX", mlx),
        ("matrix products", products),
        ("memory", memory),
        ("embedded model", embedded_model),
        ("sandbox", sandbox),
        ("model cache", model_cache),
        ("model hub", model_hub),
        ("presets", lambda: writable("presets", presets.user_folder())),
        ("runs", lambda: writable("runs", runs_dir)),
        ("terminal", terminal),
    ]
    for subject, check in checks:
        try:
            yield check()
        except Exception as error:  # the doctor is there to report just that
            yield Finding(Verdict.MISSING, subject, f"the check failed: {type(error).__name__}: {error}")


def python() -> Finding:
    return Finding(Verdict.OK, "Python", f"{platform.python_version()} at {sys.executable}")


def machine() -> Finding:
    system, kind = platform.system(), platform.machine()
    found = f"{system} {platform.release()} on {kind}, {words.plural(os.cpu_count() or 1, 'core')}"
    if system == "Darwin" and kind != "arm64":
        return Finding(Verdict.MISSING, "platform", f"{found}; MLX needs a Mac with Apple silicon")
    if system not in ("Linux", "Darwin"):
        return Finding(Verdict.MISSING, "platform", f"{found}; use Linux (also in WSL) or macOS")
    return Finding(Verdict.OK, "platform", found)


def mlx() -> Finding:
    """Loads MLX; the BLAS goes in first, for it can't afterwards."""
    from engine.inference import blas

    blas.load()
    cure = "install a backend: selfplay-tui[cpu], or selfplay-tui[cuda] for an NVIDIA GPU"
    try:
        import mlx.core as mx
    except ImportError as error:
        return Finding(Verdict.MISSING, "MLX", f"can't be loaded ({error}); {cure}")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("mlx", "mlx-lm", "transformers"))
    device = mx.default_device()
    if mx.cuda.is_available():
        name = "CUDA"
    elif mx.metal.is_available():
        name = "Metal"
    else:
        name = "CPU"
    if device.type == mx.cpu and _has_nvidia():
        return Finding(
            Verdict.WARN, "MLX", f"{versions}, on the CPU though there is an NVIDIA GPU; for it install "
            "selfplay-tui[cuda], or `uv run --no-default-groups --extra cuda selfplay-tui`"
        )  # fmt: skip
    return Finding(Verdict.OK, "MLX", f"{versions}, on {name}")


def products() -> Finding:
    """Measures before it judges: the library's name says little about its speed."""
    from engine.inference import blas

    loaded = blas.load()
    speed = loaded.measure()
    found = f"{speed:.0f} GFLOP/s in float32 on the CPU, by {loaded.name}"
    if loaded.warning:
        return Finding(Verdict.WARN, "matrix products", f"{found}: {loaded.warning}")
    if speed < SLOW_PRODUCTS:
        return Finding(
            Verdict.WARN, "matrix products", f"{found}: slow; is the machine busy, or the library generic?"
        )
    return Finding(Verdict.OK, "matrix products", found)


def memory() -> Finding:
    page = os.sysconf("SC_PAGE_SIZE")
    total = page * os.sysconf("SC_PHYS_PAGES")
    found = f"{words.memory(total)} in all"
    if "SC_AVPHYS_PAGES" in os.sysconf_names:
        found += f", {words.memory(page * os.sysconf('SC_AVPHYS_PAGES'))} unused"
    if total < LITTLE_MEMORY:
        return Finding(Verdict.WARN, "memory", f"{found}; enough for the embedded model at most")
    return Finding(Verdict.OK, "memory", found)


def embedded_model() -> Finding:
    from engine.inference.models import POCKET

    weights = sorted(POCKET.glob("model*.safetensors"))
    lacking = [name for name in ("config.json", "tokenizer.json") if not (POCKET / name).is_file()]
    if not weights:
        lacking.append("model.safetensors")
    if lacking:
        return Finding(
            Verdict.MISSING, "embedded model", f"{POCKET} lacks {', '.join(lacking)}; install selfplay-tui again"
        )
    size = sum(path.stat().st_size for path in weights)
    return Finding(Verdict.OK, "embedded model", f"'pocket', {size / 1e6:.1f} MB in {POCKET}")


def sandbox() -> Finding:
    """Tries what code that a model wrote mustn't do. Tasks without code need none of it."""
    from engine.sandbox import SandboxError
    from engine.sandbox.probe import CONFINED, loose

    try:
        free = asyncio.run(loose())
    except SandboxError as error:
        return Finding(Verdict.WARN, "sandbox", f"{error}; tasks that run code of models don't run here, others do")
    held = ", ".join(name for name in CONFINED if name not in free)
    found = f"code that models write runs with limits of time and disk; tried and denied: {held or 'nothing'}"
    if free:
        return Finding(Verdict.WARN, "sandbox", f"{found}; not denied: {', '.join(free)}")
    return Finding(Verdict.OK, "sandbox", found)


def model_cache() -> Finding:
    from huggingface_hub.constants import HF_HUB_CACHE

    folder = Path(HF_HUB_CACHE)
    names = sorted(path.name.removeprefix("models--").replace("--", "/") for path in folder.glob("models--*"))
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    found = f"{folder}: {shown or 'no models yet; the pocket presets need none'}"
    return _writable("model cache", folder, found)


def model_hub() -> Finding:
    """Asks the hub for its front page, in a thread of its own, for a name server may keep one waiting for long."""
    from huggingface_hub.constants import ENDPOINT, HF_HUB_OFFLINE

    without = "the pocket presets and models in the cache work without it"
    if HF_HUB_OFFLINE:
        return Finding(Verdict.OK, "model hub", f"not asked, HF_HUB_OFFLINE is set; {without}")
    answers: list[str] = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(ENDPOINT, timeout=PATIENCE):
                answers.append("")
        except urllib.error.HTTPError:
            answers.append("")  # an answer all the same
        except (OSError, ValueError) as error:
            answers.append(str(getattr(error, "reason", error)))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(PATIENCE + 0.5)
    obstacle = answers[0] if answers else f"no answer in {PATIENCE:g} seconds"
    if obstacle:
        return Finding(Verdict.WARN, "model hub", f"{ENDPOINT} can't be reached ({obstacle}); {without}")
    return Finding(Verdict.OK, "model hub", f"{ENDPOINT} can be reached")


def writable(subject: str, folder: Path) -> Finding:
    return _writable(subject, folder, str(folder))


def _writable(subject: str, folder: Path, found: str) -> Finding:
    """Judges by the nearest folder that exists; makes nothing."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        return Finding(Verdict.MISSING, subject, f"{found}: {existing} is a file; move it away")
    if not os.access(existing, os.W_OK | os.X_OK):
        hint = "; choose another with --runs-dir" if subject == "runs" else ""
        return Finding(Verdict.MISSING, subject, f"{found}: {existing} can't be written to{hint}")
    free = shutil.disk_usage(existing).free
    if free < LITTLE_DISK:
        return Finding(Verdict.WARN, subject, f"{found}: only {words.memory(free)} free on its disk")
    return Finding(Verdict.OK, subject, f"{found} ({words.memory(free)} free)")


def terminal() -> Finding:
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return Finding(Verdict.WARN, "terminal", "none here; runs go headless")
    size = shutil.get_terminal_size()
    colours = "no colours (NO_COLOR)" if os.environ.get("NO_COLOR") else _colours()
    found = f"{size.columns}×{size.lines}, {colours}, {os.environ.get('TERM', 'TERM not set')}"
    if size.columns < 80 or size.lines < 24:
        return Finding(Verdict.WARN, "terminal", f"{found}; the app wants 80×24 or more")
    if "utf" not in (sys.stdout.encoding or "").lower():
        return Finding(Verdict.WARN, "terminal", f"{found}; not UTF-8: set LANG=C.UTF-8")
    return Finding(Verdict.OK, "terminal", found)


def _colours() -> str:
    if os.environ.get("COLORTERM") in ("truecolor", "24bit"):
        return "16 million colours"
    return "256 colours" if "256" in os.environ.get("TERM", "") else "few colours"


def _has_nvidia() -> bool:
    return Path("/dev/nvidia0").exists()
