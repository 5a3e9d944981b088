"""The pages of schedules, workers, limits and versions, on stores without a fleet; and actions on many runs."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from weft import AsyncRunner, Policy, Runner, Workflow, each, step, wait_for
from weft import events as ev
from weft.policy import ConcurrencyLimit
from weft.ports.store import RunRecord
from weft.stores import MemoryStore, SQLiteStore
from weft.testing.contracts.cases import first
from weft.web import Identity, Tokens, app
from weft.web.source import Budget

NASTY = "<script>alert('x')</script>"
ask = Workflow("ask", step(lambda x: x, name="prepare") >> wait_for("approved"))
asks_more = Workflow("ask", step(lambda x: x, name="prepare") >> wait_for("approved") >> step(str, name="more"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store with two schedules, and open runs of two versions of one workflow."""
    path = tmp_path / "runs.db"
    with Runner(path) as runner:
        runner.schedule("nightly", ask, cron="0 3 * * *", timezone="Europe/Berlin")
        runner.schedule(NASTY, ask, every=3_600)
        for id, workflow in (("old", ask), ("older", ask), ("new", asks_more)):
            runner.start(workflow, 1, id=id)
            runner.wait_until(id, lambda run: run.waiting_for == ["approved"])
    return path


@pytest.fixture
def client(file: Path) -> Iterator[TestClient]:
    with TestClient(app(file), base_url="http://localhost") as client:
        yield client


@pytest.fixture
def long_ago(tmp_path: Path) -> Iterator[TestClient]:
    """A store with more runs than the grid of a workflow has, the oldest of an old version."""
    path = tmp_path / "many.db"
    with Runner(path) as runner:
        runner.start_many(Workflow("sizes", step(len)), ["a"] * 3).gather()
        runner.start_many(Workflow("sizes", step(len) >> step(str)), ["a"] * 60).gather()
    with TestClient(app(path), base_url="http://localhost") as client:
        yield client


def data(client: TestClient, path: str) -> Any:
    return client.get(path, params={"format": "json"}).json()


def post(client: TestClient, path: str, **fields: Any) -> Any:
    page = client.get("/schedules").text
    (token,) = {*re.findall(r'name="weft_form" value="([0-9a-f]+)"', page)}
    return client.post(path, data={"weft_form": token, **fields}, follow_redirects=False)


@pytest.mark.parametrize("path", ["/schedules", "/workers", "/limits", "/versions"])
def test_every_page_works_on_every_store(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 200
    with TestClient(app(MemoryStore()), base_url="http://localhost") as other:
        assert other.get(path).status_code == 200
        assert isinstance(data(other, path), dict)


@pytest.mark.parametrize("path", ["/schedules", "/workers", "/limits", "/versions"])
def test_nothing_is_markup_and_no_page_has_a_style_of_its_own(client: TestClient, path: str) -> None:
    page = client.get(path).text

    assert NASTY not in page
    assert not re.search(r"\sstyle=|<style|\son\w+=|<script(?! src=)", page)


# -- schedules -----------------------------------------------------------------------------------


def test_a_schedule_is_shown_with_its_next_firings(client: TestClient) -> None:
    (found,) = [each for each in data(client, "/schedules")["schedules"] if each["name"] == "nightly"]

    assert found["timing"] == "cron 0 3 * * * Europe/Berlin"
    assert len(found["firings"]) == 5


def test_a_schedule_is_paused_and_unpaused_and_says_by_whom(client: TestClient, file: Path) -> None:
    assert post(client, "/schedules/nightly/pause").headers["location"] == "/schedules"

    assert "paused by local" in client.get("/schedules").text
    with Runner(file) as runner:
        assert [each.is_paused for each in runner.schedules() if each.name == "nightly"] == [True]
    post(client, "/schedules/nightly/unpause")
    assert "unpaused by local" in client.get("/schedules").text


def test_a_schedule_is_backfilled(client: TestClient, file: Path) -> None:
    answer = post(client, "/schedules/nightly/backfill", since="2026-01-01", until="2026-01-03T12:00")

    assert answer.status_code == 303
    with Runner(file) as runner:
        (found,) = [each for each in runner.schedules() if each.name == "nightly"]
        assert (found.backfills, found.changed and found.changed.by) == (1, "local")


def test_a_span_that_makes_no_sense_is_refused(client: TestClient) -> None:
    for since, until in (("soon", "2026-01-01"), ("2026-01-02", "2026-01-01")):
        assert post(client, "/schedules/nightly/backfill", since=since, until=until).status_code == 409


def test_a_schedule_is_removed_by_an_admin_alone(file: Path) -> None:
    tokens = Tokens({f"a-long-enough-token-{role}": Identity(role, role) for role in ("operate", "admin")})
    with TestClient(app(file, auth=tokens), base_url="http://dashboard.test") as client:

        def remove(role: str) -> int:
            headers = {"authorization": f"Bearer a-long-enough-token-{role}"}
            return client.post("/schedules/nightly/remove", headers=headers, follow_redirects=False).status_code

        assert remove("operate") == 403
        assert remove("admin") == 303
        assert remove("admin") == 409


def test_every_change_is_logged_with_who_asked(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "weft.web"):
        post(client, "/schedules/nightly/pause")

    assert "local (admin) posted /schedules/nightly/pause: 303" in caplog.messages


# -- workers, limits, versions -------------------------------------------------------------------


def test_without_a_fleet_the_processes_that_hold_runs_are_shown(client: TestClient, file: Path) -> None:
    assert data(client, "/workers") == {"fleet": False, "processes": []}
    with Runner(file) as runner:
        runner.register(ask)
        runner.resume("old")
        (process,) = data(client, "/workers")["processes"]

    assert process["runs"] == 1
    assert "no fleet" in client.get("/workers").text


def test_a_worker_cannot_be_drained_where_there_is_none(client: TestClient) -> None:
    assert post(client, "/workers/3f2a/drain").status_code == 409


def test_a_service_shows_the_limits_of_its_process(file: Path) -> None:
    limited = Workflow("limited", step(str, name="work"))
    limited = limited.with_policies([("work", Policy(concurrency_limit=ConcurrencyLimit("few", 3)))])

    @asynccontextmanager
    async def lifespan(service: Starlette) -> AsyncIterator[None]:
        async with AsyncRunner(file) as runner:
            await (await runner.start(limited, 1)).result()
            service.router.routes.append(Mount("/", app(runner)))
            yield

    with TestClient(Starlette(lifespan=lifespan), base_url="http://localhost") as service:
        found = {each["name"]: each for each in data(service, "/limits")["limits"]}

    assert (found["few"]["kind"], found["few"]["state"]) == ("concurrency_limit", "free")


def test_a_page_of_another_process_says_where_the_limits_are(client: TestClient) -> None:
    assert "in the processes that drive its runs" in client.get("/limits").text


def test_versions_are_those_that_open_runs_need(client: TestClient) -> None:
    found = data(client, "/versions")["versions"]

    assert {(each["version"] == asks_more.version, each["is_newest"], each["open"]["waiting"]) for each in found} == {
        (True, True, 1),
        (False, False, 2),
    }


# -- many runs -----------------------------------------------------------------------------------


def test_many_runs_are_cancelled_with_who_and_why(client: TestClient, file: Path) -> None:
    answer = post(client, "/runs", action="cancel", run=["old", "older"], reason="too late")

    assert answer.headers["location"] == "/runs"
    with Runner(file) as runner:
        runner.register(ask)
        for id in ("old", "older"):
            runner.resume(id)
            (event,) = [event for event in runner.log(id) if isinstance(event, ev.RunCancelled)]
            assert (event.reason, event.by) == ("too late", "local")


@pytest.mark.parametrize(("form", "undoes"), [({}, True), ({"undo": "no"}, False)])
def test_many_runs_are_undone_when_they_are_cancelled_unless_the_form_says_otherwise(
    client: TestClient, file: Path, form: dict[str, str], undoes: bool
) -> None:
    assert '<input type="checkbox" name="undo" value="no">' in client.get("/runs").text

    post(client, "/runs", action="cancel", run=["old", "older"], **form)

    with Runner(file) as runner:
        messages = [message for id in ("old", "older") for message in runner.unread(id)]
    assert [(type(each), getattr(each, "undo", None)) for each in messages] == [(ev.RunCancelled, undoes)] * 2


def test_many_runs_get_one_signal_with_who_gave_it(client: TestClient, file: Path) -> None:
    wrong = post(client, "/runs", action="signal", run=["old", "older"], name="approved", value="{oops")
    answer = post(client, "/runs", action="signal", run=["old", "older"], name="approved", value='{"ok": true}')

    assert (wrong.status_code, answer.headers["location"]) == (409, "/runs")
    with Runner(file) as runner:
        runner.register(ask, asks_more)
        for id in ("old", "older"):
            runner.resume(id).wait()
            (event,) = [event for event in runner.log(id) if isinstance(event, ev.SignalReceived)]
            assert (event.name, event.value, event.by) == ("approved", {"ok": True}, "local")


def test_what_some_runs_refuse_is_told_and_the_others_have_done_it(client: TestClient) -> None:
    answer = post(client, "/runs", action="cancel", run=["old", "nothing"])

    assert answer.status_code == 409
    assert "1 of 2 done" in answer.text
    assert "nothing" in answer.text


@pytest.mark.parametrize("fields", [{"action": "explode", "run": "old"}, {"action": "cancel"}])
def test_an_action_on_nothing_is_refused(client: TestClient, fields: dict[str, str]) -> None:
    assert post(client, "/runs", **fields).status_code == 409


def test_a_form_leads_back_to_a_page_of_this_application_alone(client: TestClient) -> None:
    for back in ("https://evil.example", "//evil.example"):
        answer = post(client, "/runs", action="cancel", run="old", back=back)

        assert answer.headers["location"] == "/runs"


# -- lists read a bounded number of events -------------------------------------------------------


def test_a_list_reads_so_many_events_and_shows_the_other_runs_by_their_records() -> None:
    def of(head: int) -> RunRecord:
        return RunRecord(id="r", workflow="w", head=head, created_at=0.0, updated_at=0.0)

    budget = Budget(1_000)

    assert [budget.allows(of(head)) for head in (600, 600, 400, 1)] == [True, False, True, False]
    assert not Budget().allows(of(2_001))


def test_what_has_failed_in_an_open_run_is_a_problem_with_its_cause(tmp_path: Path) -> None:
    def refuse(x: int) -> int:
        raise ValueError("closed")

    both = Workflow("both", step(refuse), wait_for("approved"))
    with Runner(tmp_path / "open.db") as runner:
        runner.start(both, 1, id="open", open=True)
        runner.wait_until("open", lambda run: "refuse" in run.failures)
    with TestClient(app(tmp_path / "open.db"), base_url="http://localhost") as client:
        problem, left = data(client, "/problems")["problems"]

    assert (left["state"], left["runs"]) == ("interrupted", ["open"])
    assert (problem["component"], problem["error"], problem["example"]) == ("refuse", "ValueError", "closed")
    assert problem["runs"] == ["open"]


def test_a_long_run_is_looked_at_once_while_it_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.web import run_page, slow_answers

    looks: list[int] = []
    whole = run_page.waterfall

    def counted(run: Any, *, now: float | None) -> Any:
        looks.append(len(run.memory.log))
        return whole(run, now=now)

    monkeypatch.setattr(run_page, "waterfall", counted)
    monkeypatch.setattr(slow_answers, "SLOW", 0.0)
    monkeypatch.setattr(slow_answers, "FACTOR", math.inf)
    monkeypatch.setattr(slow_answers, "LONGEST", 3_600.0)  # longer than the pages take on the slowest machine
    wide = Workflow("wide", step(lambda n: list(range(n)), name="numbers") >> each(step(str, name="text")))
    with Runner(tmp_path / "wide.db", executor="inline") as runner:
        runner.start(wide, 2_500, id="wide").wait()
    with TestClient(app(tmp_path / "wide.db"), base_url="http://localhost") as client:
        pages = [client.get("/runs/wide", params={"select": name}).content for name in ("numbers", "text", "numbers")]

    assert len(looks) == 1
    assert max(map(len, pages)) < 60_000


def test_the_problems_begin_with_deadlines_in_danger(tmp_path: Path) -> None:
    async def write() -> None:
        async with SQLiteStore(tmp_path / "runs.db") as store:
            due = {"late": (1.0, 2.0), NASTY: (1.0, time.time() + 1000), "early": (time.time() + 500, 1e12)}
            await store.append([first(run, due=times, release=True) for run, times in due.items()])

    asyncio.run(write())
    with TestClient(app(tmp_path / "runs.db"), base_url="http://localhost") as client:
        page, found = client.get("/problems").text, data(client, "/problems")

    assert [each["run"] for each in found["endangered"]] == ["late", NASTY]
    assert "Deadlines in danger" in page
    assert re.search("late</a>.*?no process has it.*?past for", page, re.DOTALL)
    assert re.search(r"in 16 min", page)
    assert NASTY not in page
    assert "Nothing is wrong" not in page


def test_a_comparison_lists_a_few_of_many_alike(tmp_path: Path) -> None:
    flow = Workflow("flow", step(range, name="split") >> each(step(abs)))
    with Runner(tmp_path / "runs.db", executor="inline") as runner:
        for size in (2, 40):
            runner.start(flow, size, id=f"r{size}").wait()
    with TestClient(app(tmp_path / "runs.db"), base_url="http://localhost") as client:
        page = client.get("/runs/r2/compare?with=r40").text
        data = client.get("/runs/r2/compare?with=r40&format=json").json()

    assert page.count("<td><b>abs</b></td>") == 5
    assert "34 more that are not in r2" in page
    assert sum(each["component"] == "abs" for each in data["differences"]) == 38


def test_the_form_of_a_policy_says_what_holds_now(tmp_path: Path) -> None:
    flow = ask.with_policies([("prepare", Policy(max_retries=7, timeout=2.5))])
    with Runner(tmp_path / "runs.db", executor="inline") as runner:
        runner.start(flow, 1, id="r")
        runner.wait_until("r", lambda run: bool(run.waiting_for))
    with TestClient(app(tmp_path / "runs.db"), base_url="http://localhost") as client:
        page = client.get("/runs/r/policy?component=prepare").text

    assert re.search(r'name="max_retries"[^>]* placeholder="7"', page)
    assert re.search(r'name="timeout"[^>]* placeholder="2.5"', page)


def test_a_page_says_who_looks_and_lets_them_sign_out(tmp_path: Path) -> None:
    Runner(tmp_path / "runs.db").open().close()
    tokens = Tokens({"a-long-enough-token-here": Identity("ann", "operate")})
    with TestClient(app(tmp_path / "runs.db", auth=tokens), base_url="http://x.test") as client:
        client.post("/login", data={"token": "a-long-enough-token-here"})
        page = client.get("/runs").text
        client.post("/logout")
        after = client.get("/runs", headers={"accept": "text/html"}, follow_redirects=False)

    assert "ann, operate" in page
    assert 'action="/logout"' in page
    assert after.headers["location"] == "/login"


def test_runs_that_wait_are_ordered_by_when_they_are_woken(tmp_path: Path) -> None:
    with Runner(tmp_path / "runs.db", executor="inline") as runner:
        for id, timeout in (("soon", 60.0), ("never", None), ("later", 600.0)):
            flow = Workflow(f"waits {id}", step(abs) >> wait_for("approved", timeout=timeout))
            runner.start(flow, 1, id=id)
            runner.wait_until(id, lambda run: bool(run.waiting_for))
    with TestClient(app(tmp_path / "runs.db"), base_url="http://localhost") as client:
        found = client.get("/runs", params={"format": "json"}).json()["runs"]
        newest = client.get("/runs", params={"format": "json", "sort": "age"}).json()["runs"]

    assert [run["id"] for run in found] == ["soon", "later", "never"]
    assert [run["id"] for run in newest] == ["later", "never", "soon"]


def test_the_badge_counts_open_runs_with_failures(tmp_path: Path) -> None:
    def refuse(x: int) -> int:
        raise ValueError

    with Runner(tmp_path / "runs.db", executor="inline") as runner:
        runner.start(Workflow("flow", step(refuse)), 1, id="r", open=True)
        runner.wait_until("r", lambda run: bool(run.failures))
    with TestClient(app(tmp_path / "runs.db"), base_url="http://localhost") as client:
        assert '<b class="badge">1<span' in client.get("/runs").text


# -- workflows -----------------------------------------------------------------------------------


def test_a_workflow_counts_the_versions_of_all_its_runs(long_ago: TestClient) -> None:
    newest, oldest = data(long_ago, "/workflows/sizes")["versions"].items()

    assert (newest[1], oldest[1]) == (60, 3)
    assert f'<code title="{newest[0]}">{newest[0][:8]}</code> newest, 60 runs' in long_ago.get("/workflows/sizes").text
    assert long_ago.get("/workflows/sizes").text.count(">defaults</span>") == 2
    assert f'<code title="{oldest[0]}">{oldest[0][:8]}</code> 3 runs' in long_ago.get("/workflows/sizes").text


def test_workflows_have_pages(tmp_path: Path) -> None:
    names = [f"flow {number:03}" for number in range(120)]
    with Runner(tmp_path / "many.db") as runner:
        for name in reversed(names):
            runner.start(Workflow(name, step(len)), "a").result()
    with TestClient(app(tmp_path / "many.db"), base_url="http://localhost") as client:
        pages: list[list[str]] = []
        after: str | None = ""
        while after is not None:
            found = client.get("/workflows", params={"format": "json", "after": after}).json()
            pages.append([each["workflow"] for each in found["workflows"]])
            after = found["after"]
        first = client.get("/workflows").text
        last = client.get("/workflows", params={"after": names[99]}).text

        assert pages == [names[:50], names[50:100], names[100:]]
        assert "1\N{EN DASH}50 of 120" in first
        assert 'rel="next" href="?after=flow+049"' in first
        assert "101\N{EN DASH}120 of 120" in last
        assert "First page" in last
        assert "no workflows behind" in client.get("/workflows", params={"after": "z"}).text


def test_a_few_workflows_need_no_pages(client: TestClient) -> None:
    assert 'class="pages"' not in client.get("/workflows").text
