"""A model behind HTTP that is sometimes overloaded, on the loopback address."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Model(BaseHTTPRequestHandler):
    """Answers with the first words of a text, one chunk for each; the large model refuses what is marked."""

    protocol_version = "HTTP/1.1"
    calls = 0
    lock = threading.Lock()

    def do_POST(self) -> None:  # the name that http.server asks for
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with Model.lock:
            Model.calls += 1
            call = Model.calls
        if request["model"] == "large" and "secret" in request["text"]:
            self.refuse(400)
        elif request["model"] == "large" and call % 7 == 3:
            self.refuse(429)
        elif request["model"] == "large" and call % 7 == 5:
            self.refuse(503)
        else:
            self.answer(request["text"].split()[: request["words"]])

    def refuse(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def answer(self, words: list[str]) -> None:
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for word in words:
            data = f"{word}\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *args: object) -> None:
        """Stay quiet."""


@contextmanager
def serving() -> Iterator[int]:
    """Serve on a free port until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
