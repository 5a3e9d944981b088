"""
Calls of stores, drawn by Hypothesis, and all that can be seen of a store: two stores must agree on it.

Batches are drawn with everything that is refused in them, so that the fast way and the slow way are both taken.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec import structs

from weft.errors import StoreError
from weft.ports.store import Append, RunRecord
from weft.stores import MemoryStore

RUNS = ("a", "b", "c")
STATUSES = (None, None, "running", "idle", "completed", "failed")
LINKS = (None, None, None, b"", b"s", b"chain 0", b"chain 1", b"chain 2", b"chain 3")


@st.composite
def appends(draw: st.DrawFn) -> Append:
    """Draw an append that some run may take."""
    create = draw(st.integers(0, 3)) == 0
    count = draw(st.integers(0, 2))
    number = draw(st.integers(0, 3))
    if draw(st.integers(0, 2)) == 0:
        return Append(
            run=draw(st.sampled_from(RUNS)),
            expected=draw(st.integers(0, 4)),
            epoch=draw(st.sampled_from((1, 1, 1, 2, 3))),
            count=1,
            body=b"%d" % number,
            chain=b"chain %d" % number,
            previous=draw(st.sampled_from(LINKS)),
            at=0.0,
            again=draw(st.booleans()),
            only_events=True,
        )
    return Append(
        run=draw(st.sampled_from(RUNS)),
        create=create,
        workflow="w" if create else None,
        expected=0 if create else draw(st.integers(0, 4)),
        epoch=1 if create else draw(st.sampled_from((1, 1, 1, 2, 3))),
        count=count,
        body=b"%d" % number if count else b"",
        chain=b"chain %d" % number,
        previous=None if create else draw(st.sampled_from(LINKS)),
        at=0.0,
        status=draw(st.sampled_from(STATUSES)),
        reason=draw(st.sampled_from(("", "why"))),
        failures=draw(st.sampled_from((0, 0, 1, 2))),
        dead_letters=draw(st.integers(0, 1)),
        outcome=draw(st.sampled_from((b"", b"outcome"))),
        version=draw(st.sampled_from((None, None, "v2"))),
        release=draw(st.integers(0, 5)) == 0,
        again=draw(st.booleans()),
        facts={b"f%d" % number: b"%d" % number} if draw(st.booleans()) else {},  # a hash names one content
        definitions={b"d": b"%d" % count} if draw(st.booleans()) else {},
    )


saved = st.builds(
    lambda run, head, epoch, failures, finished_at: RunRecord(
        id=run,
        workflow="s",
        status="running" if finished_at is None else "failed",
        failures=failures,
        dead_letters=failures,
        outcome=b"saved" * failures,
        head=head,
        epoch=epoch,
        chain=b"s",
        created_at=0.0,
        updated_at=0.0,
        finished_at=finished_at,
    ),
    st.sampled_from(RUNS),
    st.integers(0, 3),
    st.sampled_from((1, 1, 2)),
    st.integers(0, 1),
    st.sampled_from((None, 3.0)),
)

listings = st.fixed_dictionaries(
    {
        "statuses": st.sampled_from([None, None, ("idle", "running", "idle"), ("failed",), ()]),
        "workflow": st.sampled_from([None, None, "w", "s"]),
        "failed": st.sampled_from([None, False, True]),
        "since": st.sampled_from([None, None, 0.0, 1.0, 3.0]),
    }
)

calls = st.one_of(
    st.tuples(st.just("append"), st.lists(appends(), max_size=5)),
    st.tuples(st.just("append"), st.lists(appends(), max_size=5)),
    st.tuples(st.just("append"), st.lists(appends(), max_size=1)),
    st.tuples(st.just("acquire"), st.sampled_from(RUNS)),
    st.tuples(st.just("release"), st.lists(st.sampled_from(RUNS))),
    st.tuples(st.just("acquire_many"), st.lists(st.sampled_from(RUNS))),
    st.tuples(st.just("list_free"), st.none()),
    st.tuples(st.just("list"), listings),
    st.tuples(st.just("list"), listings),
    st.tuples(st.just("load_many"), st.lists(st.sampled_from(RUNS))),
    st.tuples(st.just("delete"), st.sampled_from(RUNS)),
    st.tuples(st.just("purge"), st.integers(0, 9)),
    st.tuples(st.just("save"), saved),
    st.tuples(st.just("load_since"), st.tuples(st.sampled_from(RUNS), st.integers(0, 5))),
    st.tuples(st.just("restart"), st.none()),
)


def at(time: float, given: Any) -> Any:
    """Return what is reported with the time in it, which does not go back."""
    match given:
        case [Append(), *_]:
            return [structs.replace(each, at=time) for each in given]
        case RunRecord():
            return structs.replace(given, created_at=time, updated_at=time)
        case _:
            return given


async def told(store: Any, name: str, given: Any) -> Any:
    """Make one call; return its result, or its error as data."""
    try:
        match name:
            case "append":
                return [_shown(each) for each in await store.append(given)]
            case "list":
                pages = [await store.list(**given, limit=2)]
                while pages[-1]:
                    pages.append(await store.list(**given, limit=2, after=pages[-1][-1]))
                return await store.count(**given), [[_shown(each) for each in page] for page in pages]
            case "list_free":
                return [_shown(each) for each in await store.list_free()]
            case "acquire_many" | "load_many":
                return {run: _shown(each) for run, each in (await getattr(store, name)(given)).items()}
            case "purge":
                return await store.purge(before=float(given), statuses=["idle", "failed"])
            case "save":
                return await store.save(given, b"saved")
            case "load_since":
                return _shown(await store.load_since(*given))
            case "restart":
                await store.close()
                return await store.open()
            case _:
                return _shown(await getattr(store, name)(given))
    except StoreError as error:
        return _shown(error)


async def everything(store: Any) -> list[Any]:
    """Return all that can be seen of a store."""
    seen: list[Any] = [_shown(each) for each in await store.list()]
    for run in RUNS:
        seen.append(await told(store, "load_since", (run, 0)))
        seen += [await told_of(store.load_facts(run, [b"f%d" % i])) for i in range(4)]
    return [*seen, await told_of(store.load_definitions([b"d"]))]


async def told_of(answer: Any) -> Any:
    try:
        return await answer
    except StoreError as error:
        return _shown(error)


def _shown(value: Any) -> Any:
    """Return what two stores must agree on: all but the words for an owner."""
    match value:
        case StoreError():
            return type(value), str(value)
        case RunRecord():
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            return {**fields, "owner": value.owner is not None}
        case None | bool() | int():
            return value
        case _:
            return _shown(value.record), list(value.segments)


scripts = st.lists(calls, min_size=1, max_size=12)


async def agree(store: Any, script: list[tuple[str, Any]]) -> None:
    """Tell *store* and the reference the same, and compare their answers; both are open and empty."""
    async with MemoryStore() as reference:
        for time, (name, drawn) in enumerate(script):
            given = at(time, drawn)
            assert await told(store, name, given) == await told(reference, name, given), name
        assert await everything(store) == await everything(reference)
