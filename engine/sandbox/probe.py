"""What the sandbox holds here, found out by trying: a program that does all it shouldn't, to things made for it."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

from engine.sandbox.running import Limits, run_python

LIMITS = Limits(cpu=5, seconds=20.0, memory=200_000_000)
ATTEMPTS = """\
import os, sys

def tries(name, attempt):
    try:
        attempt()
    except (OSError, MemoryError, RuntimeError, ImportError):
        return
    print(name)

def write(path):
    with open(path, "w") as file:
        file.write("!")

def start():
    if os.fork() == 0:
        os._exit(0)

def connect():
    import socket
    socket.create_connection(("127.0.0.1", port), 1.0)

decoy, port = sys.argv[1], int(sys.argv[2])
tries("reading", lambda: open(decoy).read())
tries("writing", lambda: write(decoy))
tries("deleting", lambda: os.unlink(decoy))
tries("network", connect)
tries("processes", start)
tries("memory", lambda: bytearray(400_000_000))
print("done")
"""
CONFINED = ("reading", "writing", "deleting", "network", "processes", "memory")
"""What is tried. CPU time and the size of files are limits that every Unix keeps."""


async def loose() -> list[str]:
    """Those of `CONFINED` that are not. Raises `SandboxError` where code wouldn't be run at all."""
    with (
        tempfile.TemporaryDirectory(prefix="selfplay-decoy-") as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        decoy, port = Path(folder).resolve() / "decoy", server.getsockname()[1]
        decoy.write_text("a decoy")
        finished = await run_python({"attempts.py": ATTEMPTS}, ["attempts.py", f"{decoy}", f"{port}"], LIMITS)
    said = finished.stdout.split()
    if not said or said[-1] != "done":
        return list(CONFINED)
    return [name for name in CONFINED if name in said]
