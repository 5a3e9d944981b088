"""``weft ui``: what it refuses before it serves anything."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from weft import Runner
from weft.stores import SQLiteStore


def test_a_store_that_cannot_be_read_is_refused_at_once(weft: Callable[..., Any], tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("not a store, and long enough to be looked at" * 10, encoding="utf-8")

    for file, why in ((tmp_path / "no.db", "there is no file"), (tmp_path, "is a folder"), (other, "not a Weft store")):
        said = weft("ui", "--store", file)

        assert (said.code, said.out) == (1, "")
        assert why in said.err


def test_a_port_that_is_taken_is_said_in_one_line(weft: Callable[..., Any], tmp_path: Path) -> None:
    with Runner(SQLiteStore(tmp_path / "runs.db")):
        pass

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = weft("ui", "--store", tmp_path / "runs.db", "--port", port)

    assert said.code == 1
    assert said.err == (
        f"weft: cannot listen on 127.0.0.1, port {port}: Address already in use; --port 0 takes one that is free\n"
    )


def test_each_token_has_its_role(tmp_path: Path) -> None:
    with Runner(SQLiteStore(tmp_path / "runs.db")):
        pass
    tokens = {role: f"a-long-enough-token-for-{role}" for role in ("admin", "operate", "read")}
    words = ["--token", tokens["admin"], "--operate-token", tokens["operate"], "--read-token", tokens["read"]]
    command = [sys.executable, "-m", "weft", "ui", "--store", str(tmp_path / "runs.db"), "--port", "0", *words]

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as served:
        try:
            assert served.stdout is not None
            found = re.search(r"http://([\w.:]+)", served.stdout.readline())
            assert found is not None
            allowed = {
                role: [
                    path
                    for path, method in (("/runs", "GET"), ("/runs/r/cancel", "POST"), ("/workers/w/drain", "POST"))
                    if asked(found[1], path, method, token) != 403
                ]
                for role, token in tokens.items()
            }
            stranger = asked(found[1], "/runs", "GET", "another-long-enough-token")
        finally:
            served.terminate()

    assert allowed == {
        "admin": ["/runs", "/runs/r/cancel", "/workers/w/drain"],
        "operate": ["/runs", "/runs/r/cancel"],
        "read": ["/runs"],
    }
    assert stranger == 401


def asked(address: str, path: str, method: str, token: str) -> int:
    """Return the status with which a request is answered."""
    connection = HTTPConnection(address, timeout=60)
    with closing(connection):
        connection.request(method, path, headers={"authorization": f"Bearer {token}"})
        return connection.getresponse().status


def test_two_roles_with_one_token_are_refused(weft: Callable[..., Any], tmp_path: Path) -> None:
    with Runner(SQLiteStore(tmp_path / "runs.db")):
        pass

    said = weft("ui", "--store", tmp_path / "runs.db", "--token", "a" * 16, "--read-token", "a" * 16)

    assert (said.code, said.out) == (1, "")
    assert "two roles have the same token" in said.err
