"""A model hub on this machine, with one model: as much of the protocol as a download needs."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODEL = "org/tiny"


@contextmanager
def hub_server(folder: Path, error: tuple[int, str] | None = None, pretended_size: int = 0) -> Iterator[str]:
    """Serves the files of a folder as `org/tiny`; yields the hub's address.

    With `error`, every question about the model is answered by that status and `X-Error-Code`. `pretended_size`
    is told of the weights instead of their own.
    """

    class Hub(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, body: bool) -> None:
            path = self.path.partition("?")[0]
            if error:
                self.send(error[0], b"", {"X-Error-Code": error[1]}, body)
            elif path.startswith(f"/api/models/{MODEL}/tree/"):
                self.send(200, json.dumps([entry(file) for file in files()]).encode(), {}, body)
            elif path.startswith(f"/api/models/{MODEL}"):
                siblings = [{"rfilename": file.name, "size": size(file)} for file in files()]
                self.send(200, json.dumps({"id": MODEL, "sha": COMMIT, "siblings": siblings}).encode(), {}, body)
            elif path.startswith(f"/{MODEL}/resolve/") and (folder / Path(path).name).is_file():
                file = folder / Path(path).name
                etag = hashlib.sha1(file.read_bytes()).hexdigest()
                headers = {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT}
                if not body:
                    headers["X-Linked-Size"] = str(size(file))
                self.send(200, file.read_bytes(), headers, body)
            else:
                self.send(404, b"", {"X-Error-Code": "RepoNotFound"}, body)

        def send(self, status: int, content: bytes, headers: dict[str, str], body: bool) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None: ...

    def files() -> list[Path]:
        return sorted(path for path in folder.iterdir() if path.is_file())

    def size(file: Path) -> int:
        return pretended_size if pretended_size and file.suffix == ".safetensors" else file.stat().st_size

    def entry(file: Path) -> dict:
        etag = hashlib.sha1(file.read_bytes()).hexdigest()
        return {"type": "file", "path": file.name, "size": size(file), "oid": etag}

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
