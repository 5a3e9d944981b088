"""
An alternative in a process of its own, which works when it is its turn and waits in between.

So no library pays for the threads and the objects of another, and one that fails or hangs ends nothing but itself.
The process is told how much to do by a line, and answers with a line: the seconds that it took, or what went wrong.

    python -m benchmarks.alternatives.apart benchmarks.alternatives.dbos FOLDER_OR_DSN
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, process_time
from typing import IO, Any, Self

from benchmarks.durable.sampling import Samples, Unavailable

PATIENCE = 300.0
"""After how many seconds without an answer it is given up."""


class Apart:
    """The other process, as ``with Apart(module, where) as other``; *where* is a folder or the address of a server."""

    def __init__(self, module: str, package: str, where: str, patience: float = PATIENCE) -> None:
        self._command = [sys.executable, "-m", "benchmarks.alternatives.apart", module, where]
        self._package, self._patience = package, patience
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process

    def run_many(self, count: int, steps: int, samples: Samples) -> None:
        """Let it run *count* workflows of *steps* steps, and add the seconds that it took."""
        answer = self._ask({"count": count, "steps": steps})
        samples.wall.append(answer["wall"])
        samples.cpu.append(answer["cpu"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        process, self._process = self._process, None
        if process is not None:
            if kind is not None:
                process.kill()  # there is no time to wait for what it does
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()  # it ends at the end of its input
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        self._errors.close()

    def _ask(self, request: dict[str, int]) -> dict[str, Any]:
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except OSError:
            raise Unavailable(self._last_words()) from None
        return self._answer(process)

    def _start(self) -> subprocess.Popen[bytes]:
        if not is_there(self._package):
            raise Unavailable("not installed")
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=Path(__file__).parents[2],
        )
        self._answer(self._process)  # that it is ready
        return self._process

    def _answer(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(self._patience):
                process.kill()
                raise Unavailable(f"no answer within {self._patience:g} s")
        line = process.stdout.readline()
        if not line:
            raise Unavailable(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Unavailable(answer["error"])
        return answer

    def _last_words(self) -> str:
        """Return the last line that it wrote before it ended."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "its process has ended")


def is_there(package: str) -> bool:
    """Return whether a module can be imported."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def serve(module: str, where: str, requests: IO[bytes], answers: IO[bytes]) -> None:
    """Do what is asked for, until the input ends."""

    def say(**answer: float | str) -> None:
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()

    with import_module(module).opened(where) as run_many:
        run_many(2, 2)  # what is built at first use
        say(ready="yes")
        for line in requests:
            asked = json.loads(line)
            wall, cpu = perf_counter(), process_time()
            run_many(asked["count"], asked["steps"])
            say(wall=perf_counter() - wall, cpu=process_time() - cpu)


def main() -> None:
    """Serve, with an output that only the answers go to."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with its input, as the process that asks does
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        serve(sys.argv[1], sys.argv[2], sys.stdin.buffer, answers)
    except BrokenPipeError:  # the process that asks has ended
        os._exit(1)
    except Exception as error:  # noqa: BLE001 - whatever a library raises is the answer
        answers.write(json.dumps({"error": f"{type(error).__name__}: {error}".split("\n")[0]}).encode() + b"\n")
        answers.flush()
        os._exit(1)  # its threads may not end


if __name__ == "__main__":
    main()
