"""Worker processes for tests, which are ended whatever happens."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FLOWS = Path(__file__).parent / "fleet_flows.py"
CLOCK = Path(__file__).parent / "offset_clock.py"


class Workers:
    """Starts ``weft worker`` on one database."""

    def __init__(self, dsn: str, notes: Path, flows: Path = FLOWS) -> None:
        self.dsn, self.notes, self.flows = dsn, notes, flows
        self.started: list[subprocess.Popen[bytes]] = []

    def start(
        self, *options: str, lease: float = 1.5, pause: float = 0.05, clock: float = 0.0
    ) -> subprocess.Popen[bytes]:
        """Start a worker; its clock is wrong by *clock* seconds."""
        program = [str(CLOCK), str(clock)] if clock else ["-m", "weft"]
        command = [sys.executable, *program, "worker", "--dsn", self.dsn, "--import", str(self.flows)]
        given = {**os.environ, "FLEET_NOTES": str(self.notes), "FLEET_PAUSE": str(pause)}
        with (self.notes.parent / "errors").open("ab") as errors:
            process = subprocess.Popen([*command, "--lease", str(lease), *options], env=given, stderr=errors)
        self.started.append(process)
        return process

    def noted(self, word: str = "") -> list[list[str]]:
        """Return what steps have written: process, run, step."""
        lines = self.notes.read_text(encoding="utf-8").splitlines() if self.notes.exists() else []
        return [line.split() for line in lines if word in line]


@contextmanager
def workers(dsn: str, folder: Path, flows: Path = FLOWS) -> Iterator[Workers]:
    """Yield workers on *dsn*, and end those that are left."""
    made = Workers(dsn, folder / "notes", flows)
    try:
        yield made
    finally:
        for process in made.started:
            process.kill()
            process.wait()
