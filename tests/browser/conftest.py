"""A real browser on a real server, on the loopback address."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the modules of this folder import each other

CHROMIUM = os.environ.get("WEFT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore files that are left open: a browser that leaves a page breaks off what the server was sending."""
    ignored = pytest.mark.filterwarnings(
        r"ignore:Exception ignored in. <_io\.FileIO:pytest.PytestUnraisableExceptionWarning"
    )
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(ignored)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: make test-browser installs it")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium, or name it in WEFT_CHROMIUM")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def serve() -> Iterator[Callable[[Any], str]]:
    """Serve an application on a free port, in a thread; return where."""
    import uvicorn

    servers: list[tuple[uvicorn.Server, threading.Thread]] = []
    sockets: list[socket.socket] = []

    def served(application: Any) -> str:
        taken = socket.create_server(("127.0.0.1", 0))
        sockets.append(taken)
        server = uvicorn.Server(uvicorn.Config(application, log_level="error"))
        server.force_exit = True  # open event streams are not waited for
        thread = threading.Thread(target=server.run, args=([taken],), daemon=True)
        thread.start()
        until = time.monotonic() + 30
        while not server.started and time.monotonic() < until:
            thread.join(0.01)
        servers.append((server, thread))
        assert server.started
        return f"http://127.0.0.1:{taken.getsockname()[1]}"

    yield served
    for server, thread in servers:
        server.should_exit = True
        thread.join(10)
    for each in sockets:
        each.close()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The path of a store with runs in every state that a page shows."""
    from shop import fill

    path = tmp_path / "shop.db"
    fill(path)
    return path


@pytest.fixture
def open_page(browser: Any, serve: Callable[[Any], str], store: Path) -> Iterator[Callable[..., Any]]:
    """Open a page of the dashboard; at the end its console has said nothing."""
    from weft.web import app

    base = serve(app(store))
    said: list[str] = []
    contexts: list[Any] = []

    def opened(path: str, *, width: int = 1440, scheme: str = "light") -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(base + path)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert said == []
