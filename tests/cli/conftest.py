"""The command inside of this process, and a small application in its own folder, to be run in other processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from weft.cli.app import app

SHOP = """
import sys
from pathlib import Path

from weft import Policy, Runner, Workflow, context, each, reduce, step
from weft.stores import SQLiteStore


@step
def split(text: str) -> list[str]:
    return text.split()


@step
def shout(word: str) -> str:
    with Path("calls").open("a") as calls:
        calls.write(f"shout {word}\\n")
    return word.upper()


def glue(text: str, word: str) -> str:
    return f"{text} {word}".strip()


@step
def send(text: str) -> str:
    with Path("calls").open("a") as calls:
        calls.write("send\\n")
    if not Path("go").exists():
        print("sending", flush=True)
        sys.stdin.read()
    if Path("broken").exists():
        raise ConnectionError("nobody is there")
    return f"sent {text}"


shop = Workflow("shop", split >> each(shout) >> reduce(glue, init="", name="glue") >> send)
shop = shop.add_policy("send", Policy(execution_mode="durable"))

needy = Workflow("needy", step(lambda text, secret=context("secret"): text + secret, name="needy"))
needs = {"secret": "!"}

if __name__ == "__main__":
    with Runner(SQLiteStore("runs.db")) as runner:
        runner.start(shop, "hello world", id="greeting").wait()
"""


class Said(NamedTuple):
    """The output of a command."""

    code: int
    out: str
    err: str


Command = Callable[..., Said]


@pytest.fixture
def weft(capsys: pytest.CaptureFixture[str]) -> Command:
    """The command, in this process."""

    def run(*arguments: object) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            app([str(each) for each in arguments], prog_name="weft")
        out, err = capsys.readouterr()
        code = ended.value.code
        return Said(code if isinstance(code, int) else 0, out, err)

    return run


class Shop:
    """An application in *folder*, whose runs are in the file ``runs.db`` there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "runs.db"
        (folder / "shop.py").write_text(SHOP, encoding="utf-8")

    def command(self, *arguments: object) -> Said:
        """Run the command in a separate process, in the folder."""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "weft", *map(str, arguments)],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def python(self, *arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a program in the folder."""
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=check,
        )

    def begin(self) -> subprocess.Popen[str]:
        """Start the run 'greeting' in a process that hangs in its last step."""
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "shop.py"],
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "sending\n"
        return process

    def calls(self) -> list[str]:
        """Return which steps were called, in order."""
        return (self.folder / "calls").read_text(encoding="utf-8").splitlines()

    def open(self) -> None:
        """Let the last step end."""
        (self.folder / "go").touch()


def end(process: subprocess.Popen[str]) -> None:
    """Kill a process with -9, and wait for its end."""
    process.kill()
    process.communicate(timeout=20)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.fixture
def busy(shop: Shop) -> Iterator[subprocess.Popen[str]]:
    """A process that is alive and holds the run 'greeting' of the shop."""
    process = shop.begin()
    yield process
    end(process)


@pytest.fixture
def killed(shop: Shop) -> Shop:
    """The shop, after the process that had its run was killed with -9 in the last step."""
    end(shop.begin())
    return shop
