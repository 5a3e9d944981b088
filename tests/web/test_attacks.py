"""The dashboard under attack: markup in everything that a run can contain, forged requests, broken addresses."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from starlette.testclient import TestClient

from weft import Runner, Workflow, each, step, wait_for
from weft.web import Identity, Tokens, app, auth, guard, live
from weft.web.app import PAGES
from weft.web.auth import IDLE, Sessions
from weft.web.live import Watches

EVIL = "<img src=x onerror=alert(1)>\"'&{{7*7}}"
ID = f"run {EVIL}"


@dataclass
class Answer:
    ok: bool
    note: Annotated[str, msgspec.Meta(title=EVIL, description=EVIL)] = EVIL
    level: Literal["low", "<img src=x onerror=alert(1)>"] = "low"


Answer.__doc__ = EVIL


def fail(word: str) -> str:
    if word == "x":
        raise ValueError(EVIL)
    return EVIL + word


def nasty() -> Workflow[Any, Any]:
    """Return a workflow whose names, signal, values and errors are markup."""
    split = step(lambda x: [*x, EVIL], name=EVIL)
    return Workflow(
        f"flow {EVIL}",
        split >> each(step(fail, name=f"fail {EVIL}")),
        split >> wait_for(f"signal {EVIL}", schema=Answer),
    )


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("attacks") / "runs.db"
    with Runner(path) as runner:
        runner.start(nasty(), ["x", EVIL], id=ID, by=EVIL, open=True)
        runner.wait_until(ID, lambda run: bool(run.waiting_for) and bool(run.failures))
        runner.start(nasty(), ["x"], id="other", open=True)
        runner.wait_until("other", lambda run: bool(run.waiting_for))
        runner.schedule(EVIL, nasty(), every=3_600)
        runner.pause(EVIL, by=EVIL)
    return path


@pytest.fixture
def client(file: Path) -> Iterator[TestClient]:
    with TestClient(app(file, name=EVIL), base_url="http://localhost") as client:
        yield client


def paths() -> list[str]:
    """Return every page, with a run, a component and a workflow whose names are markup."""
    id, component = "/runs/run%20" + quoted(EVIL), quoted(f"fail {EVIL}")
    found = [f"{id}?select={component}&tab={tab}" for tab in ("value", "causes", "effects", "attempts", "elements")]
    found += [f"{id}?select={component}&tab={tab}" for tab in ("policy", "code")]
    found += [f"{id}?select={component}&element=0", f"{id}?select={component}&tab=elements&search={quoted(EVIL)}"]
    found += [f"{id}?list={name}" for name in ("events", "results", "children")]
    found += [f"{id}?select={quoted(f'wait_for(signal {EVIL})')}", f"{id}/value?component={quoted(EVIL)}"]
    found += [f"{id}/fork", f"{id}/fork?at={quoted(EVIL)}&value={quoted(EVIL)}", f"{id}/again"]
    found += [f"{id}/policy?component={component}&max_retries={quoted(EVIL)}", f"{id}/compare?with=other"]
    found += ["/runs", f"/runs?q={quoted(EVIL)}&workflow={quoted(EVIL)}&sort={quoted(EVIL)}", "/runs?view=scatter"]
    found += [f"/runs?workflow={quoted(f'flow {EVIL}')}", "/problems", "/workflows", "/schedules", "/workers"]
    return [*found, f"/workflows/flow%20{quoted(EVIL)}", "/limits", "/versions", f"/runs/{quoted(EVIL)}"]


def quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")


@pytest.mark.parametrize("path", paths())
def test_nothing_that_a_run_contains_is_markup(client: TestClient, path: str) -> None:
    answer = client.get(path)

    assert answer.status_code in (200, 404, 409)
    assert "<img" not in answer.text
    assert not re.search(r"""<[^>]*\sonerror=""", re.sub(r'"[^"]*"', '""', answer.text))
    assert "{{7*7}}" in answer.text or "49" not in answer.text


@pytest.mark.parametrize("path", [each for each in paths() if "?" not in each] + ["/runs?view=scatter"])
def test_data_of_every_page_is_json(client: TestClient, path: str) -> None:
    answer = client.get(path, params={"format": "json"})

    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    answer.json()


HUGE = "9" * 5_000


@pytest.mark.parametrize(
    "query",
    [
        *(f"at={value}" for value in ("²", HUGE, "-1", "0", "1e9", "٣", "%00")),
        *(f"to={value}" for value in ("²", HUGE, "0")),
        *(f"element={value}&tab=elements&start={value}" for value in ("²", HUGE, "99999999")),
        *("select=nothing", "tab=nothing", "list=nothing", "of=%ff"),
    ],
)
def test_a_broken_address_of_a_run_is_answered(client: TestClient, query: str) -> None:
    assert client.get(f"/runs/other?{query}").status_code == 200


@pytest.mark.parametrize(
    "query",
    [
        *(f"after={value}" for value in ("nothing", "failed:nothing", ":", "explode:x", HUGE, "%00")),
        *(f"from={value}" for value in ("²", HUGE, "-5", "123456789012345")),
        *(f"since={one}&until={two}" for one, two in (("nan", "inf"), ("-1", "5"), ("9", "1"), ("0", "1e300"))),
        *("since=0&until=253402300799", "status=explode", "span=explode", "view=explode", "workflow=%00", "q=%00"),
    ],
)
@pytest.mark.parametrize("order", ["attention", "age"])
def test_a_broken_address_of_the_list_is_answered(client: TestClient, query: str, order: str) -> None:
    assert client.get(f"/runs?{query}&sort={order}").status_code == 200


@pytest.mark.parametrize("at", ["²", HUGE, "0", "nothing"])
def test_a_fork_at_nothing_is_refused_and_not_an_error(client: TestClient, at: str) -> None:
    assert client.get("/runs/other/fork", params={"at": at, "format": "json"}).status_code == 409


@pytest.mark.parametrize("path", ["0.0.0", "x", "-1", HUGE, "99999", "0." * 2_000])
def test_a_part_that_a_value_does_not_have_is_not_found(client: TestClient, path: str) -> None:
    answer = client.get("/runs/other/value", params={"component": EVIL, "path": path})

    assert answer.status_code == 404


@pytest.mark.parametrize(
    "path", ["../app.py", "%2e%2e/app.py", "..%2f..%2fauth.py", "%2e%2e%2f%2e%2e%2fauth.py", "/etc/passwd"]
)
def test_no_other_file_is_served(client: TestClient, path: str) -> None:
    assert client.get(f"/static/{path}").status_code == 404


def changes() -> list[str]:
    found = (re.sub(r"\{id[^}]*\}", "other", page.path) for page in PAGES if page.method == "POST")
    found = (re.sub(r"\{name[^}]*\}", "nightly", path).replace("{worker}", "w") for path in found)
    return [path.replace("{action}", action) for path in found for action in ("cancel", "again", "fork", "signal")]


@pytest.mark.parametrize("path", sorted({*changes()}))
def test_every_change_needs_a_form_of_this_session(client: TestClient, path: str) -> None:
    page = client.get("/runs").text
    (token,) = {*re.findall(r'name="weft_form" value="([0-9a-f]+)"', page)}

    answers = [
        client.post(path, data={"reason": "forged"}),
        client.post(path, data={"weft_form": token[:-1]}),
        client.post(path, data={"weft_form": token}, headers={"origin": "http://localhost.evil.example"}),
        client.post(path, data={"weft_form": token}, headers={"origin": "null"}),
        client.post(path, json={"weft_form": token}),
        client.get(f"{path}?weft_form={token}"),
    ]

    assert [answer.status_code for answer in answers[:5]] == [403] * 5
    assert answers[5].status_code in (200, 404, 405, 409)  # a page of that address, which changes nothing


def test_a_token_of_another_session_is_refused(file: Path) -> None:
    tokens = Tokens({f"a-long-enough-token-{name}": Identity(name, "operate") for name in ("ann", "bob")})
    with TestClient(app(file, auth=tokens), base_url="http://dashboard.test") as client:
        client.post("/login", data={"token": "a-long-enough-token-ann"})
        (stolen,) = {*re.findall(r'name="weft_form" value="([0-9a-f]+)"', client.get("/runs").text)}
        client.cookies.clear()
        client.post("/login", data={"token": "a-long-enough-token-bob"})

        assert client.post("/runs/other/cancel", data={"weft_form": stolen}).status_code == 403


def test_hidden_values_cannot_be_found_by_a_search_or_in_a_form(tmp_path: Path) -> None:
    with Runner(tmp_path / "secret.db") as runner:
        flow = Workflow("w", step(list, name="split") >> each(step(lambda x: f"{x}word", name="join")))
        runner.start(flow, ["sword", "pass"], id="run").wait()
    tokens = Tokens({"a-long-enough-token-here": Identity("ann", "operate")})
    with TestClient(app(tmp_path / "secret.db", auth=tokens, values="admin"), base_url="http://x.test") as client:
        client.headers["authorization"] = "Bearer a-long-enough-token-here"
        found = client.get("/runs/run", params={"select": "join", "tab": "elements", "search": "swordword"}).text
        texts = [
            client.get(path).text
            for path in ("/runs/run/fork?at=join", "/runs/run/again", "/runs/run?select=join&element=0", "/runs")
        ]

        assert "no element fits" in found
        assert not any("swordword" in text or "'sword'" in text for text in texts)
        assert client.get("/runs/run/value?component=join").status_code == 403


# -- streams -------------------------------------------------------------------------------------


def test_so_many_pages_are_live_and_no_more(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_STREAMS", 0)

    answer = client.get("/runs/live")

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")


def test_pages_that_show_the_same_share_a_look() -> None:
    looks: list[str] = []
    now = 0.0

    async def look() -> tuple[str, bool]:
        looks.append("look")
        await asyncio.sleep(0)
        return f"state {len(looks)}", False

    async def main() -> list[list[tuple[str, bool]]]:
        nonlocal now
        watches = Watches(lambda: now)
        first = await asyncio.gather(*(watches.look("/runs", look, 0.5) for _ in range(200)))
        now = 0.4
        second = [await watches.look("/runs", look, 0.5)]
        now = 0.6
        return [first, second, [await watches.look("/runs", look, 0.5)]]

    first, second, third = asyncio.run(main())

    assert {*first, *second} == {("state 1", False)}
    assert third == [("state 2", False)]


# -- requests that no browser makes ---------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["[::1", "localhost.evil.example", "localhost@evil.example", "evil.example#@localhost"]
)
def test_a_host_that_is_not_this_machine_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/runs", headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    ("address", "headers", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("::1", {}, 200),
        ("::ffff:127.0.0.1", {}, 200),
        ("::ffff:203.0.113.9", {}, 421),
        ("203.0.113.9", {}, 421),
        ("10.0.0.7", {}, 421),
        ("unknown", {}, 421),
        ("127.0.0.1", {"x-forwarded-for": "203.0.113.9"}, 421),
        ("127.0.0.1", {"forwarded": "for=203.0.113.9"}, 421),
    ],
)
def test_without_auth_only_this_machine_is_answered_whatever_host_is_claimed(
    file: Path, address: str, headers: dict[str, str], status: int
) -> None:
    with TestClient(app(file), base_url="http://localhost", client=(address, 50_000)) as client:
        assert client.get("/runs", headers=headers).status_code == status
        assert client.get("/runs", headers={**headers, "host": "127.0.0.1:8765"}).status_code == status


def test_a_session_ends_when_it_was_not_used_for_long() -> None:
    now = 0.0
    sessions = Sessions(lambda: now)
    used, idle = sessions.open(Identity("ann")), sessions.open(Identity("bob"))
    now = IDLE - 1
    assert sessions.find(used) == Identity("ann")
    now = IDLE + 1

    assert (sessions.find(used), sessions.find(idle)) == (Identity("ann"), None)


def test_the_session_that_was_not_used_for_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "MOST_SESSIONS", 2)
    sessions = Sessions()
    first, second = sessions.open(Identity("ann")), sessions.open(Identity("bob"))
    sessions.find(first)
    sessions.open(Identity("cyd"))

    assert (sessions.find(first), sessions.find(second)) == (Identity("ann"), None)


@pytest.mark.parametrize("origin", ["http://[", "null", "", "http://", "//localhost", "http://localhost@evil.example"])
def test_a_broken_origin_is_another_one(client: TestClient, origin: str) -> None:
    (token,) = {*re.findall(r'name="weft_form" value="([0-9a-f]+)"', client.get("/runs").text)}
    answer = client.post("/runs/other/cancel", data={"weft_form": token}, headers={"origin": origin})

    assert answer.status_code == 403


def parts(size: int) -> Iterator[bytes]:
    """Yield a body whose length is not said before."""
    yield b"token="
    while size > 0:
        size -= 1_000_000
        yield b"x" * 1_000_000


@pytest.mark.parametrize("path", ["/runs", "/runs/other/signal"])
def test_a_form_that_is_too_large_is_not_read(client: TestClient, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "LARGEST", 2_000_000)

    said = client.post(path, content=b"", headers={"content-length": "2000001"})
    streamed = client.post(path, content=parts(5_000_000))

    assert [said.status_code, streamed.status_code] == [413, 413]


def test_a_token_that_is_too_large_is_not_read(file: Path) -> None:
    tokens = Tokens({"a-long-enough-token-here": Identity("ann", "operate")})
    with TestClient(app(file, auth=tokens), base_url="http://x.test") as client:
        assert client.post("/login", content=b"token=" + b"x" * 10_000).status_code == 413


def test_a_form_of_too_many_fields_is_refused(client: TestClient) -> None:
    assert client.post("/runs", content=b"run=1&" * 2_001).status_code == 413


@pytest.mark.parametrize("back", ["/\\evil.example", "//evil.example", "/\t/evil.example", "https://evil.example"])
def test_a_form_leads_back_to_a_page_of_this_application_alone(client: TestClient, back: str) -> None:
    (token,) = {*re.findall(r'name="weft_form" value="([0-9a-f]+)"', client.get("/runs").text)}
    answer = client.post("/runs", data={"weft_form": token, "action": "retry", "run": "nothing", "back": back})

    assert answer.status_code == 409
    assert "evil.example" not in answer.text


def test_a_token_in_the_address_is_no_token(file: Path) -> None:
    word = "a-long-enough-token-here"
    with TestClient(app(file, auth=Tokens({word: Identity("ann", "admin")})), base_url="http://x.test") as client:
        for name in ("token", "access_token", "weft_form", "authorization"):
            assert client.get("/runs", params={name: word}, headers={"accept": "text/plain"}).status_code == 401


def test_a_token_that_is_refused_is_in_the_log_and_not_the_token(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    tokens = Tokens({"a-long-enough-token-here": Identity("ann", "operate")})
    with TestClient(app(file, auth=tokens), base_url="http://x.test", client=("203.0.113.9", 50_000)) as client:
        client.post("/login", data={"token": "a-guess-that-is-wrong"})
        client.get("/runs", headers={"authorization": "Bearer a-guess-that-is-wrong"})
        client.get("/runs")

    said = [record.getMessage() for record in caplog.records if record.name == "weft.web"]
    assert said == ["a token that is not known came from 203.0.113.9"] * 2


DEEP = "[" * 50_000


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/runs/other/signal", {"name": f"signal {EVIL}", "value": DEEP}),
        ("/runs/other/send", {"value": DEEP}),
        ("/runs", {"action": "signal", "run": "other", "name": "x", "value": DEEP}),
    ],
)
def test_a_value_that_is_nested_too_deeply_is_refused(client: TestClient, path: str, fields: dict[str, str]) -> None:
    (token,) = {*re.findall(r'name="weft_form" value="([0-9a-f]+)"', client.get("/runs").text)}

    assert client.post(path, data={"weft_form": token, **fields}).status_code == 409
    assert client.get("/runs/other/fork", params={"value": DEEP[:20_000], "format": "json"}).status_code == 409


@pytest.mark.parametrize("query", ["&".join(f"a{n}=1" for n in range(2_000)), f"q={'x' * 20_000}"])
@pytest.mark.parametrize("path", ["/runs", "/runs/other"])
def test_a_page_repeats_nothing_that_it_was_not_asked_for(client: TestClient, path: str, query: str) -> None:
    usual = len(client.get(path).text)

    assert len(client.get(f"{path}?{query}").text) < usual + 100_000
