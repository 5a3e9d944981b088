"""Programs that show that an extra works in an environment that has nothing else: ``python extras.py NAME``."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path


def none() -> None:
    """Run a durable workflow, kill one and resume it, with what ``pip install weft`` alone installs."""
    import weft
    from weft import Runner, Workflow, step

    assert all((Runner, Workflow, step))  # the names of weft are imported on first use
    others = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
    others = {name for name in others if not name.startswith("_")}
    assert others == {"weft", "msgspec"}, f"weft has imported {sorted(others)}"
    installed = {each.name for each in distributions()} - {"pip", "setuptools", "wheel"}
    assert installed == {"weft", "msgspec"}, f"there is more than that: {sorted(installed)}"
    assert (Path(weft.__file__).parent / "py.typed").is_file()
    _durable()
    _weft("demo")
    said = _weft("ls", code=1)
    assert "needs typer and rich" in said, said


def cli() -> None:
    """Create a project, run it, look at it."""
    with tempfile.TemporaryDirectory() as folder:
        _weft("init", folder)
        _weft("run", "orders:orders", "--input", '{"lines": ["tea"]}', "--id", "o", folder=folder)
        for command in ("ls", "top", "versions", "doctor"):
            _weft(command, folder=folder)
        for command in ("show", "log", "explain", "graph", "verify"):
            _weft(command, "o", folder=folder)


def ui() -> None:
    """Serve the pages of the dashboard, to a client that speaks ASGI."""
    from weft.web import app

    async def look(file: Path) -> None:
        dashboard = app(file)
        async with dashboard.router.lifespan_context(dashboard):
            for path in ("/runs", "/problems", "/runs/r", "/workflows"):
                status = await _get(dashboard, path)
                assert status == 200, f"{path} is answered with {status}"

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "runs.db"
        _durable(file)
        asyncio.run(look(file))


def postgres() -> None:
    """Say in one line that there is no server: the driver is here."""
    from weft import Client
    from weft.errors import StoreUnavailable

    try:
        with Client("postgresql://weft@127.0.0.1:1/weft") as client:
            client.count()
    except StoreUnavailable:
        return
    raise AssertionError("there is no server on port 1")


def schedules() -> None:
    """Say when a cron expression is due."""
    from weft import Runner, Workflow, step

    with Runner() as runner:
        runner.schedule("nightly", Workflow("w", step(abs)), cron="0 3 * * *", input=1)
        assert len(runner.next_firings("nightly", 3)) == 3


def otel() -> None:
    """Make the instrumentation of OpenTelemetry."""
    import weft.contrib.otel

    assert weft.contrib.otel


def prometheus() -> None:
    """Make the metrics of Prometheus."""
    import weft.contrib.prometheus

    assert weft.contrib.prometheus


def crypto() -> None:
    """Run a durable workflow beside it: nothing in Weft uses it yet."""
    import cryptography

    assert cryptography
    _durable()


def ray() -> None:
    """Import the executor on Ray."""
    from weft.executors import RayExecutor

    assert RayExecutor


def dask() -> None:
    """Import the executor on Dask."""
    from weft.executors import DaskExecutor

    assert DaskExecutor


def everything() -> None:
    """Try each extra in its own process, in an environment that has all of them."""
    for name in PROGRAMS.keys() - {"", "all"}:
        options = [f"-W{each}" for each in sys.warnoptions]
        subprocess.run([sys.executable, *options, __file__, name], check=True)


def _durable(file: Path | None = None) -> None:
    from weft import Runner, Workflow, step

    double = Workflow("double", step(lambda x: x * 2, name="double"))
    with tempfile.TemporaryDirectory() as folder:
        where = file or Path(folder) / "runs.db"
        with Runner(str(where)) as runner:
            assert runner.start(double, 21, id="r").result() == 42
        with Runner(str(where)) as runner:
            assert runner.results("r") == {"double": 42}


def _weft(*arguments: str, code: int = 0, folder: str | None = None) -> str:
    """Call the command that the wheel has installed."""
    program = Path(sys.executable).with_name("weft")
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == code, f"weft {' '.join(arguments)} ended with {done.returncode}: {done.stderr}"
    return done.stdout + done.stderr


async def _get(application: object, path: str) -> int:
    """Return the status of a page."""
    statuses: list[int] = []
    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"", "scheme": "http",
        "headers": [(b"host", b"127.0.0.1")], "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1), "root_path": "",
        "http_version": "1.1", "asgi": {"version": "3.0"},
    }  # fmt: skip
    asked = False

    async def receive() -> dict[str, object]:
        nonlocal asked
        kind, asked = ("http.disconnect", True) if asked else ("http.request", True)
        return {"type": kind, "body": b"", "more_body": False}

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(int(str(message["status"])))

    await application(scope, receive, send)  # type: ignore[operator]
    return statuses[0]


PROGRAMS: dict[str, Callable[[], None]] = {
    "": none,
    **{each.__name__: each for each in (cli, ui, postgres, schedules, otel, prometheus, crypto, ray, dask)},
    "all": everything,
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
