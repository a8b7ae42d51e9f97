"""Somebody else's web server, on a port of its own: serves one page, and remembers who came from where."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# What such a page does to ours, in every way that a browser knows: it writes, follows, reads.
PRESS = """async ([base, paths]) => {
  for (const path of paths) {
    const form = document.createElement("form");
    Object.assign(form, { method: "post", action: base + path, target: "hidden" });
    for (const [name, value] of [["folder", "planted"], ["text", "planted"], ["id", "planted-1"]])
      form.append(Object.assign(document.createElement("input"), { name, value }));
    document.body.append(form);
    form.submit();
    const body = new URLSearchParams({ folder: "planted", text: "planted", id: "planted-2" });
    const ways = [{ mode: "no-cors" }, { mode: "cors" }, { mode: "cors", headers: { "x-gatepost": "1" } }];
    for (const way of ways)
      await fetch(base + path, { method: "POST", credentials: "include", body, ...way }).catch(() => {});
  }
}"""
FOLLOW = """async ([base, path]) => await new Promise((done) => {
  const source = new EventSource(base + path, { withCredentials: true });
  source.onopen = () => done("open");
  source.onmessage = (event) => done(event.data);
  source.onerror = () => done("refused");
})"""
READ = """async ([base, path]) => await fetch(base + path, { credentials: "include" })
  .then((answer) => answer.text(), () => "refused")"""


class ForeignServer(ThreadingHTTPServer):
    """`html`: what it serves on every path. `received`: the path and the headers of each request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.html = ""
        self.received: list[tuple[str, dict[str, str]]] = []

    @property
    def origin(self) -> str:
        """By another address of this machine than the gateway's: another site to a browser."""
        return f"http://localhost:{self.server_address[1]}"

    @property
    def near_origin(self) -> str:
        """The same host as the gateway's, another port: another origin of the same site, which gets its cookies."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: ForeignServer

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.received.append((self.path, headers))
        body = self.server.html.encode()
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serve_foreign_page() -> Iterator[ForeignServer]:
    with ForeignServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
