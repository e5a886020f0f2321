"""The doctor: what it finds, what it makes of it, and that it never hangs or breaks."""

from __future__ import annotations

import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import huggingface_hub.constants as hub
import pytest

from engine.inference import blas
from engine.sandbox import SandboxError, probe
from tui import cli, doctor
from tui.doctor import Finding, Verdict


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No network and no long measurement."""
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(blas.Blas, "measure", lambda self, size=512: 120.0)


def test_the_verdict_of_every_check_is_printed_with_a_closing_line(quick, tmp_path, capsys):
    code = cli.main(["doctor", "--runs-dir", str(tmp_path / "runs")])
    lines = capsys.readouterr().out.splitlines()
    subjects = [line[9:24].strip() for line in lines[:-2]]
    assert subjects == [
        "Python",
        "platform",
        "MLX",
        "matrix products",
        "memory",
        "embedded model",
        "sandbox",
        "model cache",
        "model hub",
        "presets",
        "runs",
        "terminal",
    ]
    verdicts = {line.split()[0] for line in lines[:-2]}
    assert verdicts <= {"ok", "warn", "missing"}
    assert (code == 1) == ("missing" in verdicts)
    assert lines[-1].startswith("Not ready" if code else "Ready")
    assert not (tmp_path / "runs").exists()


def test_something_missing_makes_the_exit_code_1(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(doctor, "findings", lambda _: [Finding(Verdict.WARN, "a", "b")])
    assert doctor.main(tmp_path) == 0
    monkeypatch.setattr(doctor, "findings", lambda _: [Finding(Verdict.MISSING, "a", "b")])
    assert doctor.main(tmp_path) == 1


def test_a_check_that_breaks_is_a_finding(quick, monkeypatch, tmp_path):
    def broken() -> Finding:
        raise RuntimeError("boom")

    monkeypatch.setattr(doctor, "memory", broken)
    [found] = [finding for finding in doctor.findings(tmp_path) if finding.subject == "memory"]
    assert found == Finding(Verdict.MISSING, "memory", "the check failed: RuntimeError: boom")


def test_slow_products_are_measured_not_guessed_from_a_name(monkeypatch):
    monkeypatch.setattr(blas, "load", lambda: blas.Blas("OpenBLAS"))
    monkeypatch.setattr(blas.Blas, "measure", lambda self: 4.0)
    assert doctor.products().verdict is Verdict.WARN
    monkeypatch.setattr(blas.Blas, "measure", lambda self: 90.0)
    assert doctor.products() == Finding(
        Verdict.OK, "matrix products", "90 GFLOP/s in float32 on the CPU, by OpenBLAS"
    )


def test_mlx_without_a_backend_says_which_extra_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlx.core", None)
    found = doctor.mlx()
    assert found.verdict is Verdict.MISSING
    assert "selfplay-tui[cpu]" in found.text


def test_a_missing_embedded_model_is_named_file_by_file(monkeypatch, tmp_path):
    from engine.inference import models

    monkeypatch.setattr(models, "POCKET", tmp_path)
    (tmp_path / "config.json").write_text("{}")
    found = doctor.embedded_model()
    assert found.verdict is Verdict.MISSING
    assert "lacks tokenizer.json, model.safetensors" in found.text


def test_what_the_sandbox_does_not_deny_is_named(monkeypatch):
    async def memory_is_not() -> list[str]:
        return ["memory"]

    monkeypatch.setattr(probe, "loose", memory_is_not)
    found = doctor.sandbox()
    assert found.verdict is Verdict.WARN
    assert "denied: reading, writing, deleting, network, processes; not denied: memory" in found.text


def test_where_nothing_can_be_confined_only_tasks_with_code_are_lost(monkeypatch):
    async def refused() -> list[str]:
        raise SandboxError("code can't be confined here, so it isn't run: no Landlock here")

    monkeypatch.setattr(probe, "loose", refused)
    found = doctor.sandbox()
    assert found.verdict is Verdict.WARN
    assert "no Landlock here; tasks that run code of models don't run here, others do" in found.text


def test_models_in_the_cache_are_listed(monkeypatch, tmp_path):
    monkeypatch.setattr(hub, "HF_HUB_CACHE", str(tmp_path))
    assert "no models yet" in doctor.model_cache().text
    (tmp_path / "models--org--small-model").mkdir()
    assert "org/small-model" in doctor.model_cache().text


@pytest.mark.parametrize("status", [200, 403])
def test_a_hub_that_answers_anything_is_reached(monkeypatch, status):
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        monkeypatch.setattr(hub, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr(hub, "HF_HUB_OFFLINE", False)
        assert doctor.model_hub().verdict is Verdict.OK


def test_a_hub_that_never_answers_is_given_up_in_time(monkeypatch):
    released = threading.Event()

    def answer_late(*_: object, **__: object) -> None:
        released.wait(10)
        raise TimeoutError

    monkeypatch.setattr(doctor, "PATIENCE", 0.2)
    monkeypatch.setattr(doctor.urllib.request, "urlopen", answer_late)
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", False)
    started = time.monotonic()
    found = doctor.model_hub()
    assert time.monotonic() - started < 2
    released.set()
    assert found.verdict is Verdict.WARN
    assert "no answer in 0.2 seconds" in found.text


def test_no_network_is_no_obstacle(monkeypatch):
    monkeypatch.setattr(hub, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", False)
    found = doctor.model_hub()
    assert found.verdict is Verdict.WARN
    assert "pocket presets" in found.text


def test_a_folder_is_judged_by_what_exists_of_it(tmp_path: Path, monkeypatch):
    assert doctor.writable("runs", tmp_path / "a" / "b").verdict is Verdict.OK
    assert not (tmp_path / "a").exists()
    (tmp_path / "a").write_text("")
    blocked = doctor.writable("runs", tmp_path / "a" / "b")
    assert (blocked.verdict, f"{tmp_path / 'a'} is a file" in blocked.text) == (Verdict.MISSING, True)
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    assert "choose another with --runs-dir" in doctor.writable("runs", tmp_path).text


def test_little_disk_is_a_warning(tmp_path, monkeypatch):
    usage = doctor.shutil.disk_usage(tmp_path)._replace(free=5_000_000)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: usage)
    found = doctor.writable("runs", tmp_path)
    assert (found.verdict, "only 5 MB free" in found.text) == (Verdict.WARN, True)
