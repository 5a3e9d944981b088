"""A program for type checkers alone: every type that they should know, and mistakes that they should find."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

from weft import (
    AsyncRunner,
    Run,
    Runner,
    Step,
    Stop,
    Workflow,
    accumulator,
    collect,
    condition,
    each,
    group_by,
    join,
    reduce,
    rule,
    sleep,
    step,
    wait_for,
    workflow,
)
from weft.core.compose.flow import ElementFlow, Flow, GatheringFlow
from weft.runner import AsyncHandle, AsyncHandles, Handle, Handles


@step
def length(text: str) -> int:
    return len(text)


@step
def shout(text: str) -> str:
    return text.upper()


@step
async def fetch(url: str) -> str:
    return url


@step(name="fetch_twice")
async def fetch_again(url: str, times: int = 2) -> str:
    return url * times


@step
def words(text: str) -> Iterator[str]:
    yield from text.split()


@step(name="lines")
async def lines(text: str) -> AsyncIterator[str]:
    yield text


def add(total: int, x: int) -> int:
    return total + x


# -- steps ---------------------------------------------------------------------------------------

assert_type(length("a"), int)
assert_type(shout.named("other")("a"), str)
assert_type(words("a b"), list[str])
assert_type(lines("a"), list[str])
length(5)  # wrong: a number for text
fetch(5)  # wrong: a number for text


# -- @workflow -----------------------------------------------------------------------------------


@workflow
def crawl(url: str, times: int = 2) -> int:
    page = fetch(url)
    assert_type(page, str)
    return length(shout(fetch_again(page, times=times)))


@workflow(name="other")
def both(first: str, second: str) -> dict[str, int]:
    return {"first": length(fetch(first)), "second": crawl(second)}


@workflow
def approved(url: str) -> int:
    assert_type(sleep(days=1)(url), str)
    assert_type(wait_for("approved")(url), Any)
    return wait_for("count", schema=int)(sleep(5)(url))


@workflow
def refused(url: str) -> str:
    return wait_for("count", schema=int)(url)  # wrong: a number is returned for text


is_long = condition(lambda text: len(text) > 10, name="is_long")


@workflow
def gated(url: str) -> int:
    return length(is_long(fetch(url)))


@workflow
def wrong(text: str) -> str:
    return length(fetch(text))  # wrong: a number is returned for text


assert_type(crawl, Workflow[str, int])
assert_type(crawl.run("weft.dev"), Run[int])
assert_type(crawl.run("weft.dev").output, int)
assert_type(crawl.run("weft.dev").run("again").output, int)
assert_type(crawl.with_policies([]).run("weft.dev").output, int)
assert_type(crawl("weft.dev"), int)
assert_type(both.run({"first": "a", "second": "b"}).output, dict[str, int])
crawl.run(5)  # wrong: a number for text


async def running() -> None:
    await fetch.__wrapped__("weft.dev")
    assert_type((await crawl.arun("weft.dev")).output, int)
    await crawl.arun(5)  # wrong: a number for text


# -- >>, each, reduce ----------------------------------------------------------------------------

total = reduce(add, init=0, name="total")


@reduce(init=0)
def until_ten(so_far: int, x: int) -> int | Stop:
    return Stop(so_far) if so_far > 10 else so_far + x


@reduce(init="")
async def joined(so_far: str, x: str) -> str:
    return so_far + x


@accumulator(init=0)
def seen(so_far: int, text: str) -> int:
    return so_far + len(text)


@step
def add_one(x: int) -> int:
    return x + 1


@group_by
def first_letter(word: str) -> str:
    return word[0]


assert_type(shout >> length, Flow[int])
assert_type(fetch >> shout, Flow[str])
assert_type([fetch, shout] >> length, Flow[int])
assert_type(join(fetch, shout, wait="any") >> length, Flow[int])
assert_type(words >> each(length) >> total, Flow[int])
assert_type(words >> each(length) >> until_ten, Flow[int])
assert_type(words >> each(shout) >> joined, Flow[str])
assert_type(words >> each(shout) >> first_letter, Flow[dict[str, list[Any]]])
assert_type(words >> each(shout) >> collect(), Flow[list[Any]])
assert_type(words >> each(length), ElementFlow[int])
assert_type(words >> each(shout >> length), ElementFlow[int])
assert_type(each(shout) >> length, ElementFlow[int])
assert_type(words >> each(shout) >> fetch >> length, ElementFlow[int])
assert_type(words >> (each(shout) >> length), ElementFlow[int])
assert_type(words >> each(shout) >> (fetch >> length), ElementFlow[int])
assert_type(words >> each(fetch >> words) >> each(length), ElementFlow[int])
assert_type(words >> each(words >> each(length)), ElementFlow[int])
assert_type(words >> each(words >> each(length) >> total), ElementFlow[int])
assert_type(words >> each(length) >> total >> add_one, Flow[int])
assert_type(length >> total, GatheringFlow[int])
assert_type(words >> each(shout) >> (length >> total), Flow[int])
assert_type(words >> each(shout) >> (length >> total >> add_one), Flow[int])
assert_type(words >> each(words) >> (shout >> each(length) >> total), ElementFlow[int])
assert_type([each(shout), each(fetch)] >> total, Flow[int])
assert_type(each(shout) >> [length, fetch], Flow[Any])
assert_type(each(shout) >> crawl, Flow[Any])  # which may close the each, or not
flowing: Flow[list[int]] = words >> each(shout) >> length
not_one: Flow[int] = words >> each(shout) >> length  # wrong: a list for a number
assert_type(shout >> seen, Flow[int])
assert_type(shout >> rule(then=lambda x: x, name="always"), Flow[Any])
assert_type(shout >> crawl, Flow[int])
assert_type(shout >> [length, fetch], Flow[Any])

assert_type(Workflow("w", fetch >> length).run("a").output, int)
assert_type(Workflow("w", words >> each(length) >> total).run("a b").output, int)
assert_type(Workflow("w", words >> each(length)).run("a b").output, list[int])
assert_type(Workflow("w", words >> each(shout) >> length).run("a b").output, list[int])
assert_type(Workflow("w", words >> each(shout) >> (length >> total)).run("a b").output, int)
assert_type(Workflow("w", fetch >> length, fetch >> shout).run("a").output, Any)


# -- runs of a runner ----------------------------------------------------------------------------


def of_runner(runner: Runner) -> None:
    handle = runner.start(crawl, "weft.dev")
    assert_type(handle, Handle[int])
    assert_type(handle.result(), int)
    assert_type(handle.result(timeout=5.0), int)
    assert_type(handle.wait(), Run[int])
    assert_type(handle.wait().output, int)
    assert_type(handle.results(), dict[str, Any])
    assert_type(handle.send("again"), Handle[int])
    assert_type(runner.start(crawl, id="open").send("again").result(), int)
    runner.start(crawl, 5)  # wrong: a number for text
    handle.result().upper()  # wrong: a number has no upper case

    assert_type(runner.result(handle), int)
    assert_type(runner.wait(handle), Run[int])
    assert_type(runner.get(handle), Run[int])
    assert_type(runner.wait_until(handle, lambda run: run.output > 5), Run[int])
    assert_type(runner.gather([handle, handle]), list[int])

    handles = runner.start_many(crawl, ["a", "b"])
    assert_type(handles, Handles[int])
    assert_type(handles[0], Handle[int])
    assert_type(handles[1:], Handles[int])
    assert_type([one.result() for one in handles], list[int])
    assert_type(handles.gather(), list[int])
    assert_type(handles.gather(return_exceptions=True), list[int | Exception])
    assert_type(runner.gather(handles), list[int])
    assert_type(runner.gather(handles, return_exceptions=True), list[int | Exception])
    runner.start_many(crawl, [5])  # wrong: a number for text


async def of_async_runner(runner: AsyncRunner) -> None:
    handle = await runner.start(crawl, "weft.dev")
    assert_type(handle, AsyncHandle[int])
    assert_type(await handle.result(), int)
    assert_type((await handle.wait()).output, int)
    assert_type(await (await handle.send("again")).result(), int)
    await runner.start(crawl, 5)  # wrong: a number for text

    assert_type(await runner.result(handle), int)
    assert_type(await runner.wait(handle), Run[int])
    assert_type(await runner.gather([handle]), list[int])

    handles = await runner.start_many(crawl, ["a", "b"])
    assert_type(handles, AsyncHandles[int])
    assert_type(handles[0], AsyncHandle[int])
    assert_type(await handles.gather(), list[int])
    assert_type(await handles.gather(return_exceptions=True), list[int | Exception])
    await runner.start_many(crawl, [5])  # wrong: a number for text


def of_unknown_types(runner: Runner, flow: Workflow, made: Workflow[Any, Any]) -> None:
    assert_type(runner.start(flow, 5), Handle[Any])
    assert_type(runner.start(flow, 5).result(), Any)
    assert_type(runner.start(made, id="open").send(5).result(), Any)
    assert_type(runner.start_many(flow, [1, "a"]).gather(), list[Any])
    assert_type(runner.start(Workflow("w", fetch >> length), object()).result(), int)
    assert_type(runner.resume("a"), Handle[Any])
    assert_type(runner.send("a", 5).result(), Any)
    assert_type(runner.result("a"), Any)
    assert_type(runner.wait("a"), Run[Any])
    assert_type(runner.get("a").output, Any)
    assert_type(runner.gather(["a", "b"]), list[Any])
    any_of: Handle = runner.start(crawl, "weft.dev")
    assert_type(any_of.result(), Any)


# -- without annotations, as before --------------------------------------------------------------

double = step(lambda x: x * 2, name="double")
plain: Workflow = Workflow("w", double >> length)
made: Run = plain.run(1)


def keep(flow: Workflow, component: Step[..., Any]) -> Workflow:
    return flow.add(component)


keep(crawl, fetch)
