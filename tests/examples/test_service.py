"""The example of a service takes an order, an approval, and shows its runs."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

SERVICE = Path(__file__).parents[2] / "examples" / "service" / "service.py"

pytest.importorskip("fastapi", reason="needs fastapi: make setup installs it")


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("ORDERS_STORE", str(tmp_path / "orders.db"))
    spec = importlib.util.spec_from_file_location("example_service", SERVICE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(__import__("sys").modules, "example_service", module)
    spec.loader.exec_module(module)
    with TestClient(module.service, base_url="http://127.0.0.1") as client:
        yield client


def test_an_order_is_taken_once_approved_and_answered(client: Any) -> None:
    order = {"count": 2, "price": 4.5}
    assert [client.put("/orders/o-1", json=order).status_code for _ in range(2)] == [202, 202]
    assert client.put("/orders/o-1", json={"count": 3, "price": 4.5}).status_code == 409
    assert client.get("/orders/o-2").status_code == 404

    assert client.post("/orders/o-1/approval", json={"ok": "perhaps"}).status_code == 422
    assert client.post("/orders/o-1/approval", json={"ok": True, "by": "ada"}).status_code == 200

    while (answer := client.get("/orders/o-1").json())["status"] != "completed":
        assert answer["status"] in ("running", "waiting")
    assert answer["result"] == "9.0 EUR, shipped: ada"
    assert "o-1" in client.get("/weft/").text
