"""A handle in a notebook: a picture of its run, which is replaced in place."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from weft import AsyncRunner, Runner, Workflow, step, wait_for
from weft.runner.handle import AsyncHandle
from weft.runner.notebook import Blocking, follow

ASKS = Workflow("asks", step(abs, name="check") >> wait_for("ok") >> step(bool, name="said"))
SHELL = """
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from weft import Runner, Workflow, step
from weft.runner import notebook

class Shell(InteractiveShell):
    kernel = {kernel}

shell = Shell.instance()
shell.display_pub = CapturingDisplayPublisher()
notebook.on_a_thread = notebook.asyncio.run
with Runner() as runner:
    handle = runner.start(Workflow("w", step(abs)), -1, id="r")
    handle.wait()
    handle._ipython_display_()
for shown in shell.display_pub.outputs:
    print(shown["update"], *shown["data"], shown["data"]["text/plain"], bool(shown["transient"]))
"""


def test_a_picture_follows_a_run_until_it_has_finished() -> None:
    pictures: list[str] = []

    with Runner() as runner:
        handle = runner.start(ASKS, 1)
        runner.wait_until(handle, lambda run: bool(run.waiting_for))

        def put(svg: str) -> None:
            pictures.append(svg)
            if len(pictures) == 1:
                handle.signal("ok", True)

        asyncio.run(follow(handle, Blocking(runner), put))

    assert "…" in pictures[0]
    assert "…" not in pictures[-1]


def test_a_runner_that_is_closed_leaves_the_last_picture() -> None:
    pictures: list[str] = []

    async def main() -> None:
        async with AsyncRunner() as runner:
            handle: AsyncHandle[bool] = await runner.start(ASKS, 1)
            await runner.wait_until(handle, lambda run: bool(run.waiting_for))
            seen = asyncio.Event()

            def put(svg: str) -> None:
                pictures.append(svg)
                seen.set()

            following = asyncio.ensure_future(follow(handle, runner, put))
            await seen.wait()
        await following

    asyncio.run(main())

    assert len(pictures) == 1


@pytest.mark.parametrize(
    ("kernel", "shown"),
    [
        ("True", ["False text/plain Handle('r') True", "True image/svg+xml text/plain Handle('r') True"]),
        ("None", ["False text/plain Handle('r') False"]),
    ],
    ids=["notebook", "terminal"],
)
def test_a_notebook_replaces_the_picture_and_a_terminal_shows_text(kernel: str, shown: list[str]) -> None:
    said = subprocess.run(
        [sys.executable, "-c", SHELL.format(kernel=kernel)], capture_output=True, text=True, check=True
    )

    assert said.stdout.splitlines() == shown
