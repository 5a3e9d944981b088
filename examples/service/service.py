"""Orders over HTTP: a FastAPI application that drives its runs and shows them."""

from __future__ import annotations

import os
from dataclasses import dataclass

from fastapi import FastAPI, HTTPException, Request

from weft import AsyncRunner, Workflow, step, wait_for
from weft.contrib.asgi import lifespan
from weft.errors import InvalidSignal, RunExists, RunNotFound
from weft.web import app as dashboard

STORE = os.environ.get("ORDERS_STORE", "orders.db")


@dataclass
class Approval:
    ok: bool
    by: str


@step
async def price(order: dict[str, float]) -> float:
    return round(order["count"] * order["price"], 2)


approved = wait_for("approved", schema=Approval, timeout=86_400)


@step
async def ship(amount: float, approval: Approval) -> str:
    return f"{amount} EUR, {'shipped' if approval.ok else 'refused'}: {approval.by}"


orders = Workflow("orders", price >> approved, [price, approved] >> ship)

service = FastAPI(lifespan=lifespan(STORE, orders, Approval))
service.mount("/weft", dashboard(STORE))


def runner_of(request: Request) -> AsyncRunner:
    """Return the runner of this process."""
    return request.state.runner


@service.put("/orders/{id}", status_code=202)
async def put(id: str, order: dict[str, float], request: Request) -> dict[str, str]:
    try:
        await runner_of(request).start(orders, order, id=id, by="api")
    except RunExists as error:  # the same id with another order
        raise HTTPException(409, str(error)) from None
    return {"id": id}


@service.get("/orders/{id}")
async def get(id: str, request: Request) -> dict[str, object]:
    runner = runner_of(request)
    try:
        status = await runner.status(id)
    except RunNotFound:
        raise HTTPException(404, f"there is no order {id!r}") from None
    return {"id": id, "status": status, "result": await runner.result(id) if status == "completed" else None}


@service.post("/orders/{id}/approval")
async def approve(id: str, answer: dict[str, object], request: Request) -> dict[str, str]:
    try:
        await runner_of(request).signal(id, "approved", answer, key=id, by=str(answer.get("by")))
    except InvalidSignal as error:
        raise HTTPException(422, str(error)) from None
    return {"id": id}
