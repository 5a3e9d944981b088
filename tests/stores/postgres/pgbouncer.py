"""
A real PgBouncer in front of the server of the tests, in transaction mode.

WEFT_PGBOUNCER names another program than the one on the path.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

PATIENCE = 60.0
_SETTINGS = """\
[databases]
* = host={server} user=postgres

[pgbouncer]
listen_addr =
listen_port = 5432
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = {sessions}
max_client_conn = 500
logfile = {folder}/log
{prepared}
"""


def found() -> str | None:
    """Return where the program is."""
    named = os.environ.get("WEFT_PGBOUNCER")
    return named or shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")


needed = pytest.mark.skipif(
    "WEFT_TEST_DSN" in os.environ or found() is None,
    reason="needs pgbouncer (apt install pgbouncer, or WEFT_PGBOUNCER), and the tests' own server",
)


def keeps_prepared_statements() -> bool:
    """Return whether this PgBouncer can keep prepared statements in transaction mode, as 1.21 and later do."""
    program = found()
    if program is None:
        return False
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    major, minor, *_ = said.split()[1].split(".")
    return (int(major), int(minor)) >= (1, 21)


class PgBouncer:
    """One that runs, in front of all databases of the server of *dsn*."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self._folder, self._parts = folder, urlsplit(dsn)

    @property
    def address(self) -> str:
        """The address of the database through the pooler."""
        return f"postgresql://postgres:@{self._parts.path}?host={self._folder}"


@contextmanager
def pgbouncer(dsn: str, *, sessions: int = 3, prepared: int = 0) -> Iterator[PgBouncer]:
    """Run a PgBouncer with so many sessions, which keeps so many prepared statements of each client; yield it."""
    (server,) = parse_qs(urlsplit(dsn).query)["host"]
    program = found()
    assert program is not None
    with tempfile.TemporaryDirectory(prefix="weft-pb-") as folder:
        settings = Path(folder) / "pgbouncer.ini"
        kept = f"max_prepared_statements = {prepared}" if keeps_prepared_statements() else ""
        settings.write_text(_SETTINGS.format(server=server, folder=folder, sessions=sessions, prepared=kept))
        command = [program, str(settings)]
        if os.geteuid() == 0:  # it refuses to be root, and the socket of the server is for the user of the server
            user = pwd.getpwuid(Path(server).stat().st_uid)
            for each in (Path(folder), settings):
                os.chown(each, user.pw_uid, user.pw_gid)
            command[1:1] = ["-u", user.pw_name]
        with subprocess.Popen([*command, "-q"], stderr=subprocess.PIPE) as process:
            try:
                _until(lambda: process.poll() is not None or _answers(Path(folder)))
                assert process.poll() is None, process.stderr.read() if process.stderr else b""
                yield PgBouncer(Path(folder), dsn)
            finally:
                process.kill()


def _answers(folder: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(folder / ".s.PGSQL.5432"))
        except OSError:
            return False
    return True


def _until(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.02)
