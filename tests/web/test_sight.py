"""
No route answers a role with a value that this role may not see: a word is planted wherever a run can have one.

The routes are those of the application, so one that is added tomorrow is tried too.
"""

from __future__ import annotations

import asyncio
import operator
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from weft import Policy, Runner, Saga, Workflow, accumulator, context, current, each, reduce, step, wait_for
from weft.errors import InvalidSignal
from weft.policy import Value
from weft.stores import SQLiteStore
from weft.views.hidden import hidden_run
from weft.web import Identity, Tokens, app
from weft.web.actions import ACTIONS
from weft.web.app import PAGES
from weft.web.auth import RANK, Role

WORD = "swordfish"
TOKENS: dict[str, Role] = {f"a-long-enough-token-for-{role}": role for role in RANK}
WEB = Path(__file__).parents[2] / "src" / "weft" / "web"


def fail(word: str) -> str:
    raise LookupError(f"no account of {word}") from ValueError(f"inner {word}")


def pick(word: str) -> str:
    if len(word) > 3:
        raise ValueError(f"too long: {word}")
    return word


@step
def speak(word: str) -> str:
    current().stream("tokens").write(f"token {word}")
    current().progress(1, 2, f"note {word}")
    return word


trip = Saga("trip")
trip.transaction(lambda request, results: request, name="book", compensate=lambda request, results: request)
trip.transaction(lambda request, results: fail(str(request)), name="pay", compensate=None)

everything = Workflow(
    "everything",
    step(lambda x: [x, x], name="split") >> each(step(fail, name="each_fails")),
    step(lambda x: [x, "a"], name="names") >> each(step(pick, name="skips")) >> reduce(max, init="", name="longest"),
    step(fail, name="retried"),
    step(fail, name="falls"),
    step(fail, name="handled").on_error(LookupError, then=step(lambda failure: failure.message, name="aside")),
    step(lambda x, key=context("key"): f"{x}{key}", name="keyed"),
    accumulator(lambda state, x: [*state, x], init=[], name="seen"),
    trip,
    speak >> wait_for("answer", schema=int),
    step(str, name="text") >> wait_for("words"),
    policies=[
        ("skips", Policy(on_failure="skip")),
        ("retried", Policy(max_retries=1, on_failure="dead_letter")),
        ("falls", Policy(fallback=lambda runnable, error: Value(f"instead of {WORD}"))),
        ("split", Policy(metadata={"of": WORD})),
    ],
)
failing = Workflow("failing", step(fail, name="fails"))
sums = Workflow("sums", step(lambda x: x, name="same") >> accumulator(operator.add, init="", name="total"))


def planted(path: Path) -> list[str]:
    """Make runs with the word in their inputs, results, errors, signals, policies, streams, notes, edits and jobs."""
    with Runner(SQLiteStore(path, synchronous="normal"), executor="inline", snapshot_every=20) as runner:
        runner.start(everything, WORD, id="open", open=True, context={"key": WORD}, by="ann")
        runner.wait_until("open", lambda run: len(run.waiting_for) == 2)
        with pytest.raises(InvalidSignal):
            runner.signal("open", "answer", WORD)
        runner.signal("open", "words", WORD)
        runner.set_policies("open", [("longest", Policy(metadata={"of": WORD}))], mode="merge", by="ann")
        runner.fork("open", "forked", at="names", value=[WORD, f"{WORD}!"], context={"key": WORD})
        runner.wait_until("forked", lambda run: bool(run.waiting_for))
        for id in ("failed", "long"):
            runner.start(failing, WORD, id=id).wait()
        runner.start(Workflow("done", speak), WORD, id="done").wait()
        runner.start(sums, id="cut")
        for number in range(60):
            runner.send("cut", f"{WORD}{number}").result()
        runner.stop("cut")
        assert runner.truncate("cut")
        runner.start(sums, WORD, id="carried", open=True).result()
        runner.continue_as_new("carried")
        runner.schedule("nightly", failing, every=3_600, input=WORD)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "insert into jobs (id, created_at, look_at, revision, body) values ('job', 1.0, 9e9, 1, ?)",
            (f'{{"workflow": "{WORD}"}}'.encode(),),
        )
        db.execute("update runs set status = 'parked', reason = ? where id = 'forked'", (f"cannot undo {WORD}",))
        db.execute("update runs set reason = ? where id = 'failed'", (f"LookupError: {WORD}",))
        return [run for (run,) in db.execute("select id from runs order by id")]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    path = tmp_path_factory.mktemp("planted") / "runs.db"
    return path, planted(path)


@pytest.fixture(params=["operate", "admin"])
def values(request: pytest.FixtureRequest) -> Role:
    """The role that is needed to see values."""
    role: Role = request.param
    return role


@pytest.fixture
def client(stored: tuple[Path, list[str]], values: Role) -> Iterator[TestClient]:
    tokens = Tokens({token: Identity(role, role) for token, role in TOKENS.items()})
    with TestClient(app(stored[0], auth=tokens, values=values), base_url="http://dashboard.test") as client:
        yield client


COMPONENTS = [*everything.components, "fails", "total", "INPUT"]
QUERIES: dict[str, list[str]] = {
    "/runs": ["", "view=scatter", "sort=age", "status=failed", "q=open", "span=all&status=waiting"],
    "/runs/{id:path}": [
        "",
        "at=9",
        "of=skips",
        "list=results",
        "list=children",
        f"tab=elements&select=skips&search={WORD[:5]}",
        *(f"select={name}&tab={tab}" for name in COMPONENTS for tab in ("value", "causes", "attempts", "policy")),
        *(f"select={name}&element=0" for name in ("each_fails", "skips")),
    ],
    "/runs/{id:path}/fork": ["", *(f"at={name}" for name in COMPONENTS), "at=2", "at=names&value=[3]"],
    "/runs/{id:path}/policy": ["", *(f"component={name}&timeout=2" for name in COMPONENTS)],
    "/runs/{id:path}/compare": ["", *(f"with={id}" for id in ("open", "forked", "failed", "long"))],
    "/runs/{id:path}/value": [f"component={name}" for name in COMPONENTS],
}
FORMS: list[dict[str, Any]] = [
    {},
    {"value": "3", "name": "answer", "component": "retried", "at": "names", "reason": "no", "timeout": "2"},
    {"value": '"x"', "name": "nothing", "component": "nothing", "at": "nothing", "id": "failed"},
    {"action": "retry", "run": ["open", "failed", "forked", "cut"]},
    {"action": "signal", "name": "answer", "value": "true", "run": ["open", "failed"]},
]


def addresses(path: str, runs: list[str]) -> list[str]:
    """Return the addresses of a route, with their queries."""
    ids = runs if "{id" in path else [""]
    names = ["everything", "failing"] if path.startswith("/workflows/{") else ["nightly"]
    actions = list(ACTIONS) if "{action}" in path else [""]
    found: list[str] = []
    for id in ids:
        for name in names:
            for action in actions:
                told = re.sub(r"\{id[^}]*\}", id, path).replace("{action}", action).replace("{worker}", "1")
                told = re.sub(r"\{name[^}]*\}", name, told)
                found += [f"{told}?{query}" for query in QUERIES.get(path, [""])]
    return list(dict.fromkeys(found))


def without_typed(text: str) -> str:
    """Return a page without what its own address has brought."""
    return text.replace(WORD[:5] + '"', "").replace(f"search={WORD[:5]}", "")


@pytest.mark.parametrize("role", list(RANK))
@pytest.mark.parametrize("path", [page.path for page in PAGES if page.method == "GET" and "live" not in page.path])
def test_no_page_and_no_data_show_a_value_to_a_role_that_may_not_see_it(
    client: TestClient, stored: tuple[Path, list[str]], values: Role, role: Role, path: str
) -> None:
    headers, may_see, shown = {"authorization": f"Bearer a-long-enough-token-for-{role}"}, RANK[role] >= RANK[values], 0
    for address in addresses(path, stored[1]):
        for asked in (address, f"{address}&format=json"):
            answer = client.get(asked, headers=headers, follow_redirects=False)
            assert answer.status_code < 500, asked
            has_word = WORD in without_typed(answer.text)
            shown += has_word
            assert may_see or not has_word, asked
    if may_see and path in ("/runs", "/runs/{id:path}", "/problems"):
        assert shown  # else this would prove nothing


@pytest.mark.parametrize("path", [page.path for page in PAGES if page.method == "POST"])
def test_no_refusal_of_an_action_quotes_a_value(tmp_path: Path, path: str) -> None:
    ids = planted(tmp_path / "runs.db")
    tokens = Tokens({token: Identity(role, role) for token, role in TOKENS.items()})
    headers = {"authorization": "Bearer a-long-enough-token-for-operate"}
    with TestClient(
        app(tmp_path / "runs.db", auth=tokens, values="admin"), base_url="http://dashboard.test", headers=headers
    ) as client:
        for address in addresses(path, ids):
            for form in FORMS:
                for accepts in ("text/html", "application/json"):
                    answer = client.post(address, data=form, headers={"accept": accepts}, follow_redirects=False)
                    assert answer.status_code < 500, address
                    assert WORD not in answer.text, (address, form)


async def streamed(application: Any, path: str, role: Role) -> bytes:
    """Return the beginning of a stream, from a client that leaves then."""
    token = f"a-long-enough-token-for-{role}"
    found, left, is_asked = bytearray(), asyncio.Event(), False
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "server": ("dashboard.test", 80),
        "http_version": "1.1",
        "headers": [
            (b"host", b"dashboard.test"),
            (b"authorization", b"Bearer " + token.encode()),
        ],
    }

    async def receive() -> dict[str, Any]:
        nonlocal is_asked
        if is_asked:
            await left.wait()
            return {"type": "http.disconnect"}
        is_asked = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        found.extend(message.get("body", b"") + repr(message.get("headers", "")).encode())
        if message.get("body"):
            left.set()

    await asyncio.wait_for(application(scope, receive, send), 60)
    return bytes(found)


@pytest.mark.parametrize("path", [page.path for page in PAGES if page.path.endswith("/live")])
def test_no_stream_of_changes_has_a_value(stored: tuple[Path, list[str]], path: str) -> None:
    async def main() -> None:
        tokens = Tokens({token: Identity(role, role) for token, role in TOKENS.items()})
        application = app(stored[0], auth=tokens, values="admin")
        async with application.router.lifespan_context(application):
            for address in addresses(path, stored[1]):
                found = await streamed(application, address.partition("?")[0], "read")
                assert b"event: state" in found
                assert WORD.encode() not in found

    asyncio.run(main())


def test_pages_ask_the_source_that_fits_the_role_and_no_other() -> None:
    """Whatever a page shows comes from ``source_of(request)``; only actions, which show nothing, have the runner."""
    sources = {path.name: path.read_text(encoding="utf-8") for path in WEB.glob("*.py")}
    of_state = {name for name, text in sources.items() if "state.source" in text or "state.hidden" in text}
    of_runner = {name for name, text in sources.items() if ".runner()" in text}

    assert of_state == {"app.py", "sight.py"}
    assert of_runner == {"actions.py", "schedules_page.py", "sight.py", "source.py"}
    assert sources["schedules_page.py"].count(".runner()") == 1  # of its actions


def test_a_run_whose_values_are_hidden_has_the_same_structure() -> None:
    with Runner(executor="inline") as runner:
        run = runner.start(everything, WORD, id="r", open=True, context={"key": WORD})
        runner.wait_until("r", lambda run: len(run.waiting_for) == 2)
        seen = runner.get(run.id)
    hidden = hidden_run(seen)

    assert WORD not in repr(hidden.log())
    assert WORD not in repr(hidden.results())
    assert hidden.waiting_for == seen.waiting_for
    assert set(hidden.results()) == set(seen.results())
    assert [type(event) for event in hidden.log()] == [type(event) for event in seen.log()]
    assert len(hidden.dead_letters) == len(seen.dead_letters)
    assert hidden_run(seen).results() == hidden.results()  # equal values are still equal
