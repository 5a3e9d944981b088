"""The dashboard, asked over HTTP without a browser."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from weft import Policy, Run, Runner, Workflow, current, each, reduce, step, wait_for
from weft import events as ev
from weft.errors import InvalidOption
from weft.views import Waterfall
from weft.views.waterfall import Bar, Row
from weft.web import Identity, Tokens, app
from weft.web.app import PAGES
from weft.web.auth import RANK, Role
from weft.web.run_page import axis, happenings, listed_from

TOKENS = {role: f"a-long-enough-token-for-{role}" for role in RANK}
NASTY = "<script>alert('x')</script>"


@step
def lines(text: str) -> list[str]:
    return text.split()


@step
def size(word: str) -> int:
    if word == "boom":
        raise ValueError(NASTY)
    return len(word)


total = reduce(lambda acc, n: acc + n, init=0, name="total")
count = Workflow("count", lines >> each(size) >> total)
ask = Workflow("ask", step(lambda x: x, name="prepare") >> wait_for("approved") >> step(lambda x: x, name="after"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store with a run that completed, one that failed, and one that waits for a person."""
    path = tmp_path / "runs.db"
    with Runner(path) as runner:
        runner.start(count, "to be or not", id="good").result()
        runner.start(count, f"a boom {NASTY}", id="bad")
        runner.wait("bad")
        runner.start(ask, {"secret": "swordfish"}, id="asks", by="api")
        runner.wait_until("asks", lambda run: run.waiting_for == ["approved"])
    return path


@pytest.fixture
def client(file: Path) -> Iterator[TestClient]:
    with TestClient(app(file), base_url="http://localhost") as client:
        yield client


@pytest.fixture
def guarded(file: Path) -> Iterator[TestClient]:
    tokens = Tokens({TOKENS[role]: Identity(f"person-{role}", role) for role in RANK})
    with TestClient(app(file, auth=tokens, values="operate"), base_url="http://dashboard.test") as client:
        yield client


def bearer(role: Role) -> dict[str, str]:
    return {"authorization": f"Bearer {TOKENS[role]}"}


def form_token(client: TestClient, path: str) -> str:
    found = re.search(r'name="weft_form" value="([0-9a-f]+)"', client.get(path).text)
    assert found is not None
    return found[1]


def test_the_first_page_keeps_what_is_asked_for(client: TestClient) -> None:
    assert [run["id"] for run in client.get("/?format=json&status=completed").json()["runs"]] == ["good"]


def test_errors_are_data_where_data_is_asked_for(client: TestClient, guarded: TestClient) -> None:
    none, unknown = client.get("/nope", params={"format": "json"}), guarded.get("/runs", params={"format": "json"})
    refused = guarded.get("/runs/good/fork", params={"format": "json"}, headers=bearer("read"))

    assert (none.status_code, none.json()) == (404, {"error": "there is no such page"})
    assert (unknown.status_code, unknown.json()) == (401, {"error": "say who you are: a token is needed"})
    assert (refused.status_code, "needs operate" in refused.json()["error"]) == (403, True)
    assert client.get("/nope").text == "there is no such page\n"


# -- pages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/runs", "/problems", "/workflows", "/workflows/count", "/runs/good", "/runs/asks"])
def test_every_page_is_shown_and_has_its_data(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 200
    assert isinstance(client.get(path, params={"format": "json"}).json(), dict)


def test_the_list_says_why_a_run_needs_attention(client: TestClient) -> None:
    first = client.get("/runs", params={"format": "json"}).json()["runs"][0]

    assert (first["id"], first["why"]["component"], first["why"]["action"]) == ("bad", "size", "retry")


def test_filters_are_parts_of_the_address(client: TestClient) -> None:
    found = client.get("/runs", params={"status": "completed", "format": "json"}).json()

    assert [run["id"] for run in found["runs"]] == ["good"]


def test_pages_continue_where_the_one_before_ended(tmp_path: Path) -> None:
    with Runner(tmp_path / "many.db") as runner:
        runner.start_many(count, ["a"] * 120, ids=[f"r{i}" for i in range(120)]).gather()
    with TestClient(app(tmp_path / "many.db"), base_url="http://localhost") as client:
        for order in ("attention", "age"):
            seen: list[str] = []
            after: str | None = ""
            while after is not None:
                found = client.get("/runs", params={"format": "json", "sort": order, "after": after}).json()
                seen += [run["id"] for run in found["runs"]]
                after = found["after"]

            assert sorted(seen) == sorted(f"r{i}" for i in range(120))


def test_runs_that_wait_are_ordered_by_their_times_on_all_pages(tmp_path: Path) -> None:
    ids = [f"r{number:03}" for number in range(120)]
    with Runner(tmp_path / "many.db") as runner:
        for place, id in enumerate(reversed(ids)):
            flow = Workflow("asks", wait_for("approved", timeout=3_600 + 60 * (len(ids) - place)))
            runner.start(flow, 1, id=id)
            runner.wait_until(id, lambda run: run.waiting_for == ["approved"])
        runner.start(Workflow("asks", wait_for("approved")), 1, id="never")
        runner.wait_until("never", lambda run: run.waiting_for == ["approved"])
    with TestClient(app(tmp_path / "many.db"), base_url="http://localhost") as client:
        for query in ({}, {"workflow": "asks"}, {"span": "all"}):
            seen: list[str] = []
            after: str | None = ""
            while after is not None:
                found = client.get("/runs", params={"format": "json", "after": after, **query}).json()
                seen += [run["id"] for run in found["runs"]]
                after = found["after"]

            assert seen == [*ids, "never"]


def test_a_page_goes_on_behind_a_run_that_is_gone_or_no_longer_waits(tmp_path: Path) -> None:
    flow = Workflow("asks", wait_for("approved", timeout=3_600))
    ids = [f"r{number:03}" for number in range(55)]
    with Runner(tmp_path / "many.db") as runner:
        for id in ids:
            runner.start(flow, 1, id=id)
            runner.wait_until(id, lambda run: run.waiting_for == ["approved"])
        with TestClient(app(tmp_path / "many.db"), base_url="http://localhost") as client:

            def cancel(id: str) -> None:
                runner.cancel(id)
                runner.wait(id)

            for change in (cancel, runner.delete):
                asked = {"format": "json", "status": "waiting"}
                first = client.get("/runs", params=asked).json()
                change(ids.pop(49))

                second = client.get("/runs", params={**asked, "after": first["after"]}).json()

                assert [run["id"] for run in second["runs"]] == ids[49:]


def test_a_run_is_shown_as_it_was_after_an_event(client: TestClient) -> None:
    early = client.get("/runs/good", params={"at": 3, "format": "json"}).json()

    assert early["event"] == 3
    assert early["components"]["total"]["state"] != "done"
    assert client.get("/runs/good", params={"format": "json"}).json()["components"]["total"]["state"] == "done"


def test_what_came_of_a_component_and_what_it_came_from_is_shown(client: TestClient) -> None:
    page = client.get("/runs/good", params={"select": "total"}).text

    assert "Inspector: total" in page
    assert re.search(r"Came from.*size.*Caused", page, re.DOTALL)


def test_what_a_run_contains_is_never_markup(client: TestClient) -> None:
    for path in ("/runs", "/runs/bad", "/runs/bad?select=size", "/problems", f"/runs?q={NASTY}"):
        page = client.get(path).text

        assert NASTY not in page
        assert "&lt;script&gt;alert" in page


def test_a_run_that_is_not_there_is_said_to_be_missing(client: TestClient) -> None:
    answer = client.get("/runs/nothing")

    assert answer.status_code == 404
    assert "nothing" in answer.text


def test_an_id_may_contain_anything(tmp_path: Path) -> None:
    with Runner(tmp_path / "odd.db") as runner:
        runner.start(count, "a", id="team/eu west?#1").result()
    with TestClient(app(tmp_path / "odd.db"), base_url="http://localhost") as client:
        (link,) = re.findall(r'<a href="(/runs/[^"]+)">team', client.get("/runs").text)

        assert client.get(link).status_code == 200


def test_an_empty_store_shows_how_to_make_the_first_run(tmp_path: Path) -> None:
    with Runner(tmp_path / "empty.db"):
        pass
    with TestClient(app(tmp_path / "empty.db"), base_url="http://localhost") as client:
        assert "from weft import Runner" in client.get("/runs").text


def test_a_run_of_many_elements_is_one_page_of_bounded_size(tmp_path: Path) -> None:
    sizes: list[int] = []
    for number in (500, 5_000):
        path = tmp_path / f"{number}.db"
        with Runner(path, executor="inline") as runner:
            runner.start(count, "word " * number, id="wide").result()
        with TestClient(app(path), base_url="http://localhost") as client:
            sizes.append(len(client.get("/runs/wide").content))

    assert sizes[1] < sizes[0] + 10_000


# -- actions -------------------------------------------------------------------------------------


def test_an_answer_reaches_the_run_with_the_name_of_the_person(client: TestClient, file: Path) -> None:
    token = form_token(client, "/runs/asks")

    answer = client.post(
        "/runs/asks/signal",
        data={"weft_form": token, "name": "approved", "value": '{"ok": true}'},
        follow_redirects=False,
    )

    assert answer.status_code == 303
    with Runner(file) as runner:
        runner.register(ask)
        assert runner.resume("asks").result() == {"ok": True}
        (signal,) = [event for event in runner.log("asks") if isinstance(event, ev.SignalReceived)]
        assert signal.by == "local"


def test_a_cancelled_run_says_by_whom_and_why(client: TestClient, file: Path) -> None:
    token = form_token(client, "/runs/asks")

    client.post("/runs/asks/cancel", data={"weft_form": token, "reason": "too late"})

    with Runner(file) as runner:
        runner.register(ask)
        runner.resume("asks")
        (event,) = [event for event in runner.log("asks") if isinstance(event, ev.RunCancelled)]
        assert (event.reason, event.by) == ("too late", "local")


@pytest.mark.parametrize(("form", "undoes"), [({}, True), ({"undo": "no"}, False)])
def test_a_run_is_undone_when_it_is_cancelled_unless_the_form_says_otherwise(
    client: TestClient, file: Path, form: dict[str, str], undoes: bool
) -> None:
    token = form_token(client, "/runs/asks")

    client.post("/runs/asks/cancel", data={"weft_form": token, **form})

    with Runner(file) as runner:
        (message,) = runner.unread("asks")
    assert isinstance(message, ev.RunCancelled)
    assert message.undo is undoes


external = Workflow(
    "external",
    step(lambda x: current().token, name="ask") >> step(str, name="told"),
    policies=[("ask", Policy(execution_mode="external", timeout=3600))],
)


def test_a_step_that_is_open_is_shown_as_waiting_and_its_token_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Runner(path) as runner:
        runner.start(external, 1, id="x")
        run = runner.wait_until("x", lambda run: run.status == "waiting")
        [token] = run.tokens
    with TestClient(app(path), base_url="http://localhost") as client:
        text = client.get("/runs/x?select=ask&list=events").text
        listed = client.get("/runs").text

    assert "waits for a completion from outside" in text
    assert "times out in" in listed
    assert [states_of(run)[kind] for kind in (ev.TokenIssued, ev.CompletionAwaited)] == ["running", "waiting"]
    assert token.partition(".")[2] not in text + listed


def test_a_step_that_was_cancelled_says_by_whom_and_why(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Runner(path) as runner:
        runner.start(external, 1, id="x")
        runner.wait_until("x", lambda run: run.status == "waiting")
        runner.cancel("x", "wrong desk", component="ask", by="ann")
        run = runner.wait("x")
    with TestClient(app(path), base_url="http://localhost") as client:
        text = client.get("/runs/x?select=ask&list=events").text

    assert "cancelled: wrong desk, by ann" in text
    assert [states_of(run)[kind] for kind in (ev.RunnableCancelled, ev.RunnableFailed)] == ["cancelled", "cancelled"]


def test_a_step_that_failed_outside_is_shown_as_failed_and_one_that_was_completed_says_by_whom(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Runner(path) as runner:
        for name in ("failed", "done"):
            runner.start(external, 1, id=name)
            run = runner.wait_until(name, lambda run: run.status == "waiting")
            [token] = run.tokens
            if name == "failed":
                runner.fail(token, "closed", by="ann")
            else:
                runner.complete(token, 7, by="bob")
        failed, done = runner.wait("failed"), runner.wait("done")
    with TestClient(app(path), base_url="http://localhost") as client:
        assert "ExternalFailure: closed, attempt 1, by ann" in client.get("/runs/failed?list=events").text
        assert "completed from outside = 7, by bob" in client.get("/runs/done?list=events").text

    assert (states_of(failed)[ev.FailureReceived], states_of(done)[ev.CompletionReceived]) == ("failed", "done")


def test_a_time_that_an_event_names_is_counted_from_it_and_stands_in_full_in_the_markup() -> None:
    flow = Workflow("flow", step(abs) >> wait_for("approved", timeout=5_400.0))
    with Runner() as runner:
        handle = runner.start(flow, 1)
        run = runner.wait_until(handle, lambda run: run.waiting_for == ["approved"])

    (line,) = [each for each in happenings(run.log(), 0.0, may_see=True, is_grouped=False) if each.told.due]

    assert (line.told.before, line.told.left) == ("waits ", "for up to 1 h 30 min")


def test_labels_of_a_scale_neither_repeat_nor_overlap() -> None:
    bars = (Bar("running", 0.0, 0.02), Bar("running", 5.0, 5.02), Bar("running", 605.0, 605.05))
    ticks = axis(Waterfall(0.0, 605.05, (Row("charge", "failed", bars),), {}))

    assert [tick.text for tick in ticks if tick.is_fold] == ["4.98 s", "10 min"]
    assert len({tick.text for tick in ticks}) == len(ticks)
    assert all(left.reach[1] < right.reach[0] for left, right in itertools.pairwise(ticks))


def states_of(run: Run) -> dict[type[Any], str]:
    """Return in which state the list of events shows each kind of event."""
    log = run.log()
    lines = happenings(log, 0.0, may_see=True, is_grouped=False)
    return {type(log[line.seq - 1]): line.state for line in lines}


def test_what_weft_refuses_is_said_and_changes_nothing(client: TestClient) -> None:
    token = form_token(client, "/runs/asks")

    answer = client.post("/runs/good/cancel", data={"weft_form": token})

    assert answer.status_code == 409
    assert "completed" in answer.text


def test_a_run_that_has_failed_is_retried_where_its_code_is(client: TestClient, file: Path) -> None:
    page = client.get("/runs/bad").text
    token = form_token(client, "/runs/asks")

    answer = client.post("/runs/bad/retry", data={"weft_form": token})

    assert "/runs/bad/retry" not in page
    assert f"weft retry bad --import {__name__} --store " in page
    assert answer.status_code == 409
    assert f"weft retry bad --import {__name__} --store " in answer.text
    with Runner(file) as runner:
        assert runner.status("bad") == "failed"


def test_a_value_that_is_not_json_is_refused(client: TestClient) -> None:
    token = form_token(client, "/runs/asks")

    answer = client.post("/runs/asks/signal", data={"weft_form": token, "name": "approved", "value": "{oops"})

    assert answer.status_code == 409
    assert "JSON" in answer.text


# -- safety --------------------------------------------------------------------------------------


def addresses() -> Iterator[tuple[str, str, Role]]:
    for page in PAGES:
        path = re.sub(r"\{id[^}]*\}", "asks", page.path)
        path = re.sub(r"\{name[^}]*\}", "count", path).replace("{action}", "retry")
        path = path.replace("/value", "/value?component=prepare")
        if "live" not in path:
            yield page.method, path, page.role


@pytest.mark.parametrize(("method", "path", "needed"), list(addresses()))
@pytest.mark.parametrize("role", [None, *RANK])
def test_every_page_asks_for_its_role(
    guarded: TestClient, method: str, path: str, needed: Role, role: Role | None
) -> None:
    headers = {} if role is None else bearer(role)

    answer = guarded.request(method, path, headers=headers, follow_redirects=False)

    if role is None:
        assert answer.status_code == 401
    elif RANK[role] < RANK[needed] or ("/value?" in path and role == "read"):  # values need "operate" here
        assert answer.status_code == 403
    else:
        assert answer.status_code in (200, 303, 307, 409)


@pytest.mark.parametrize("path", ["/runs", "/runs/good", "/login", "/static/weft.css", "/runs/nothing"])
def test_every_answer_has_a_strict_content_security_policy(client: TestClient, path: str) -> None:
    headers = client.get(path).headers

    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("path", ["/runs", "/runs/bad", "/runs/asks", "/problems", "/workflows/count"])
def test_a_page_has_no_style_or_script_of_its_own(client: TestClient, path: str) -> None:
    page = client.get(path).text

    assert not re.search(r"\sstyle=|<style|\son\w+=|<script(?! src=)", page)


def test_a_form_of_another_page_changes_nothing(client: TestClient, file: Path) -> None:
    client.get("/runs/asks")

    without = client.post("/runs/asks/cancel", data={"reason": "forged"})
    wrong = client.post("/runs/asks/cancel", data={"reason": "forged", "weft_form": "0" * 64})
    token = form_token(client, "/runs/asks")
    elsewhere = client.post("/runs/asks/cancel", data={"weft_form": token}, headers={"origin": "http://evil.example"})

    assert [answer.status_code for answer in (without, wrong, elsewhere)] == [403, 403, 403]
    with Runner(file) as runner:
        assert runner.find("asks").status != "cancelled"


def test_without_tokens_only_requests_to_this_machine_are_answered(file: Path) -> None:
    with TestClient(app(file), base_url="http://rebound.example") as client:
        assert client.get("/runs").status_code == 421


def test_a_browser_signs_in_with_a_token(guarded: TestClient) -> None:
    html = {"accept": "text/html"}
    asked = guarded.get("/runs", headers=html, follow_redirects=False)
    wrong = guarded.post("/login", data={"token": "guess"})
    right = guarded.post("/login", data={"token": TOKENS["operate"]}, follow_redirects=False)

    assert (asked.status_code, asked.headers["location"]) == (303, "/login")
    assert wrong.status_code == 401
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert guarded.get("/runs").status_code == 200
    token = form_token(guarded, "/runs/asks")
    assert guarded.post("/runs/asks/cancel", data={"weft_form": token}, follow_redirects=False).status_code == 303


def test_values_are_hidden_from_roles_that_may_not_see_them(guarded: TestClient) -> None:
    for path in (
        "/runs/asks",
        "/runs/asks?select=prepare",
        "/runs/asks?list=results",
        "/runs/asks?format=json",
        "/runs",
    ):
        assert "swordfish" not in guarded.get(path, headers=bearer("read")).text
    assert "swordfish" in guarded.get("/runs/asks?select=prepare", headers=bearer("operate")).text
    assert "= 9<" not in guarded.get("/runs", headers=bearer("read")).text
    assert "= 9<" in guarded.get("/runs", headers=bearer("operate")).text


def test_a_short_token_is_refused() -> None:
    with pytest.raises(InvalidOption, match="can be guessed"):
        Tokens({"hunter2": Identity("ada")})


def test_an_application_can_say_who_asks(file: Path) -> None:
    async def who(request: Any) -> Identity | None:
        return Identity("ada", "read") if request.headers.get("x-user") == "ada" else None

    with TestClient(app(file, auth=who), base_url="http://service.test") as client:
        assert client.get("/runs").status_code == 401
        assert client.get("/runs", headers={"x-user": "ada"}).status_code == 200


# -- mounted -------------------------------------------------------------------------------------


def test_it_can_be_mounted_into_another_application(file: Path) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    service = Starlette(routes=[Mount("/weft", app(file))])
    with TestClient(service, base_url="http://localhost") as client:
        page = client.get("/weft/runs").text

        assert 'href="/weft/static/weft.css"' in page
        assert client.get("/weft/static/weft.css").status_code == 200
        assert client.get("/weft/", follow_redirects=False).headers["location"] == "/weft/runs"
        assert client.get("/weft/runs/good").status_code == 200


def test_a_blocking_runner_is_refused_with_what_to_use() -> None:
    with pytest.raises(InvalidOption, match="AsyncRunner"):
        app(Runner())  # type: ignore[arg-type]


# -- fork, comparison and policy -----------------------------------------------------------------


def test_a_fork_says_what_would_run_and_the_command_where_no_code_is(client: TestClient) -> None:
    page = client.get("/runs/good/fork", params={"at": "total", "value": "7"}).text
    found = client.get("/runs/good/fork", params={"at": "lines", "value": '["x"]', "format": "json"}).json()

    assert f"weft fork good --at total --value 7 --import {__name__} --store " in page
    assert found["preview"]["runs"].keys() == {"map_1", "size", "total"}


def test_a_fork_with_a_value_that_is_not_json_or_of_nothing_is_refused(client: TestClient) -> None:
    for query in ({"at": "total", "value": "{"}, {"at": "nobody"}, {"at": "99999"}):
        answer = client.get("/runs/good/fork", params={**query, "format": "json"})

        assert (answer.status_code, bool(answer.json()["error"])) == (409, True)


def test_pages_without_code_make_no_fork(client: TestClient) -> None:
    token = form_token(client, "/runs/asks")

    assert client.post("/runs/good/fork", data={"weft_form": token, "at": "total"}).status_code == 409


def test_two_runs_are_shown_with_what_differs(client: TestClient) -> None:
    found = client.get("/runs/good/compare", params={"with": "bad", "format": "json"}).json()

    assert "total" in {each["component"] for each in found["differences"]}
    assert "What differs" in client.get("/runs/good/compare?with=bad").text


def test_values_of_a_comparison_are_hidden_from_those_who_may_not_see_them(guarded: TestClient) -> None:
    path = "/runs/good/compare?with=bad&format=json"
    seen = guarded.get(path, headers=bearer("operate")).json()["differences"]
    hidden = guarded.get(path, headers=bearer("read")).json()["differences"]

    assert all("one" in each for each in seen)
    assert not any("one" in each for each in hidden)


def test_a_policy_is_changed_by_a_person_after_a_preview(client: TestClient, file: Path) -> None:
    shown = client.get("/runs/asks/policy?component=after&max_retries=3&format=json").json()
    token = form_token(client, "/runs/asks")
    client.post("/runs/asks/policy", data={"weft_form": token, "component": "after", "max_retries": "3"})

    assert (shown["component"], shown["touches"], shown["error"]) == ("after", [], None)
    with Runner(file) as runner:
        runner.register(ask)
        runner.resume("asks")
        run = runner.wait_until("asks", lambda run: run.explain_policy("after").policy.max_retries == 3)
        assert [event.by for event in run.log() if isinstance(event, ev.PolicyChanged)] == ["local"]


def test_a_policy_that_makes_no_sense_is_refused_before_it_is_sent(client: TestClient) -> None:
    for query in ("max_retries=many", "timeout=-1", "on_failure=explode"):
        answer = client.get(f"/runs/asks/policy?component=after&{query}&format=json")

        assert answer.status_code == 409


# -- forms from types ----------------------------------------------------------------------------

SHOP = """
from dataclasses import dataclass
from typing import Literal
from weft import Runner, Workflow, step, wait_for

@dataclass
class Approval:
    ok: bool
    level: Literal["low", "high"] = "low"
    note: str = ""

@step
def prepare(x: int) -> int:
    return x

flow = Workflow("shop", prepare >> wait_for("approved", schema=Approval))
if __name__ == "__main__":
    import sys
    with Runner(sys.argv[1]) as runner:
        runner.start(flow, 1, id="order")
        runner.wait_until("order", lambda run: run.waiting_for == ["approved"])
"""


def test_an_answer_has_a_form_from_its_type_though_the_class_is_not_here(tmp_path: Path) -> None:
    (tmp_path / "typed_shop.py").write_text(SHOP)
    subprocess.run([sys.executable, tmp_path / "typed_shop.py", tmp_path / "runs.db"], check=True)
    with TestClient(app(tmp_path / "runs.db"), base_url="http://localhost") as client:
        page = client.get("/runs/order?select=wait_for(approved)").text
        token = form_token(client, "/runs/order?select=wait_for(approved)")
        answer = {"name": "approved", "field:flag:ok": "true", "field:choice:level": '"high"', "field:text:note": "7"}
        posted = client.post("/runs/order/signal", data={"weft_form": token, **answer}, follow_redirects=False)
    sys.path.insert(0, str(tmp_path))
    try:
        shop = __import__("typed_shop")
        with Runner(tmp_path / "runs.db") as runner:
            runner.register(shop.flow)
            result = runner.resume("order").result()
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("typed_shop", None)

    assert "expects Approval" in page
    assert re.findall(r'name="(field:[^"]+)"', page) == [
        "field:flag:ok",
        "field:flag:ok",
        "field:choice:level",
        "field:text:note",
    ]
    assert posted.status_code == 303
    assert result == shop.Approval(True, "high", "7")


def test_many_alike_are_one_line_however_many_there_are() -> None:
    flow = Workflow("flow", step(list, name="split") >> each(step(abs)) >> reduce(max, init=0, name="most"))
    with Runner(executor="inline") as runner:
        log = runner.start(flow, range(1_000)).wait().log()

    lines = happenings(log, 0.0, may_see=True, is_grouped=True)
    one_by_one = happenings(log, 0.0, may_see=True, is_grouped=False)

    assert [line.component for line in lines][:4] == ["most", "abs", "map_1", "split"]
    assert (lines[-1].seq, lines[1].last - lines[1].seq) == (1, 999)
    assert [line.seq for line in one_by_one] == [event.seq for event in reversed(log[-200:])]


@pytest.mark.parametrize("grouped", [True, False])
def test_every_event_is_on_one_of_the_pages(grouped: bool) -> None:
    flow = Workflow("flow", step(abs) >> step(str, name="text"))
    with Runner(executor="inline") as runner:
        handle = runner.start(flow)
        for number in range(150):
            runner.send(handle, number)
        log = runner.wait_until(handle, lambda run: len(run.values("text")) == 150).log()

    seen: list[int] = []
    left = list(log)
    while left:
        page = happenings(left, 0.0, may_see=True, is_grouped=grouped)
        seen += [seq for line in page for seq in range(line.last, line.seq - 1, -1)]
        left = left[: listed_from(left, is_grouped=grouped)]

    assert seen == [event.seq for event in reversed(log)]


def test_the_failure_of_an_element_is_shown_with_what_it_was_called_with_and_one_key(tmp_path: Path) -> None:
    keys: dict[int, list[str]] = {}

    def refuse(x: int) -> int:
        keys.setdefault(x, []).append(current().idempotency_key)
        if x == 3:
            raise ValueError("three")
        return x

    policies = [("refuse", Policy(max_retries=1))]
    flow = Workflow("flow", step(list, name="split") >> each(step(refuse)), policies=policies)
    with Runner(tmp_path / "runs.db", executor="inline") as runner:
        runner.start(flow, range(9), id="r").wait()
    with TestClient(app(tmp_path / "runs.db"), base_url="http://localhost") as client:
        page = client.get("/runs/r?select=refuse").text

    assert "map_1 = 3" in page
    assert "map_1 = 8" not in page
    assert '<td class="right quiet">at once</td>' in page
    assert [key in page for key in keys[3]] == [True, True]
    assert keys[8][0] not in page
    assert "rule 1 of 1" in page


def test_what_a_retry_has_made_good_is_no_failure(tmp_path: Path) -> None:
    calls: list[int] = []

    def once(x: int) -> int:
        calls.append(x)
        if len(calls) == 1:
            raise ValueError("the first time")
        return x

    with Runner(tmp_path / "runs.db", executor="inline") as runner:
        handle = runner.start(Workflow("flow", step(once)), 1, id="r")
        handle.wait()
        runner.retry("r")
        assert handle.result() == 1
    with TestClient(app(tmp_path / "runs.db"), base_url="http://localhost") as client:
        page = client.get("/runs/r?select=once").text

    assert '<p class="bad">' not in page


def test_the_data_of_a_run_has_what_its_page_shows_of_the_chosen_component(client: TestClient) -> None:
    found = client.get("/runs/bad", params={"select": "size", "search": "boom", "format": "json"}).json()
    of_total = client.get("/runs/good", params={"of": "total", "select": "total", "format": "json"}).json()

    assert (found["selected"]["name"], found["selected"]["error"]) == ("size", f"ValueError: {NASTY}")
    assert [step["error"] for step in found["selected"]["attempts"] if step["error"]] == [f"ValueError: {NASTY}"]
    assert (found["elements"]["of"], found["events"][-1]["text"]) == (3, "started count: 4 components")
    assert [event["component"] for event in of_total["events"]] == ["total"]
    assert of_total["selected"]["value"]["text"] == "9"
