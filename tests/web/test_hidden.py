"""Values are hidden, wherever a run can quote one, from those who may not see them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from weft import Policy, Runner, Workflow, condition, each, reduce, step, wait_for
from weft.errors import InvalidSignal
from weft.web import Identity, Tokens, app

WORD = "swordfish"
TOKENS = {role: f"a-long-enough-token-for-{role}" for role in ("read", "admin")}


def fail(word: str) -> str:
    inner = ValueError(f"inner {word}")
    raise LookupError(f"no account of {word}") from inner


def small(word: str) -> str:
    if len(word) > 3:
        raise ValueError(f"too long: {word}")
    return word


secrets = Workflow(
    "secrets",
    step(lambda x: [x, x], name="split") >> each(step(fail, name="each_fails")),
    step(lambda x: [x, "a"], name="names") >> each(step(small, name="skips")) >> reduce(max, init="", name="longest"),
    step(fail, name="retried"),
    condition(lambda x: x == "other", name="is_other") >> step(str, name="never"),
    step(lambda x: x, name="ask") >> wait_for("answer", schema=int),
    policies=[
        ("skips", Policy(on_failure="skip")),
        ("retried", Policy(max_retries=2, on_failure="dead_letter")),
    ],
)
plain = Workflow("plain", step(fail, name="fails"))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hidden") / "runs.db"
    with Runner(path, executor="inline") as runner:
        for id in ("open", "parked"):
            runner.start(secrets, WORD, id=id, open=True)
            runner.wait_until(id, lambda run: bool(run.waiting_for))
        with pytest.raises(InvalidSignal, match="int"):
            runner.signal("open", "answer", WORD)
        for id in ("failed", "long"):
            runner.start(plain, WORD, id=id).wait()
        runner.start(secrets, WORD, id="stopped", open=True)
        runner.cancel("stopped", "wrong file", by="alan")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("update runs set status = 'parked', reason = ? where id = 'parked'", (f"cannot undo {WORD}",))
        db.execute("update runs set reason = ? where id = 'failed'", (f"LookupError: {WORD}",))
    return path


@pytest.fixture
def client(file: Path) -> Iterator[TestClient]:
    tokens = Tokens({token: Identity(role, role) for role, token in TOKENS.items()})  # type: ignore[arg-type]
    with TestClient(app(file, auth=tokens, values="operate"), base_url="http://dashboard.test") as client:
        yield client


def paths() -> list[str]:
    names = ("each_fails", "skips", "retried", "longest", "answer", "split", "ask")
    tabs = ("value", "causes", "effects", "attempts", "elements", "policy", "code")
    found = [f"/runs/open?select={name}&tab={tab}" for name in names for tab in tabs]
    found += [f"/runs/open?select={name}&element=0" for name in ("each_fails", "skips")]
    found += [f"/runs/open?select=skips&tab=elements&search={WORD[:5]}", "/runs/open?at=9", "/runs/open?of=skips"]
    found += [f"/runs/{id}?list={part}" for id in ("open", "parked", "failed") for part in ("events", "results")]
    found += ["/runs/failed/compare?with=long", "/runs/open/compare?with=failed", "/runs/stopped"]
    found += ["/runs", "/runs?view=scatter", "/runs?sort=age", "/problems", "/workflows/secrets", "/workflows"]
    return [*found, "/schedules", "/limits", "/versions", "/workers", "/runs/open/value?component=split"]


@pytest.mark.parametrize("query", ["", "format=json"])
@pytest.mark.parametrize("path", paths())
def test_no_page_and_no_data_shows_a_value_to_a_reader(client: TestClient, path: str, query: str) -> None:
    address = path if not query else f"{path}{'&' if '?' in path else '?'}{query}"
    answer = client.get(address, headers={"authorization": f"Bearer {TOKENS['read']}"})

    assert answer.status_code in (200, 403)
    assert WORD not in answer.text.replace(f'value="{WORD[:5]}"', "")


def test_the_types_of_errors_and_the_reasons_of_people_stay(client: TestClient) -> None:
    def text(path: str, role: str = "read") -> str:
        return client.get(path, headers={"authorization": f"Bearer {TOKENS[role]}"}).text

    assert "LookupError: hidden" in text("/runs/failed")
    assert "cancelled by alan" in text("/runs/stopped")
    assert "wrong file" in text("/runs/stopped")
    for path in ("/runs/failed", "/problems", "/runs", "/runs/open?select=skips&tab=elements"):
        assert WORD in text(path, "admin")


@pytest.mark.parametrize("query", ["", "format=json"])
@pytest.mark.parametrize(
    "path",
    ["fork", "fork?at=names", "fork?at=each_fails&value=3", "fork?at=2", "again", "policy?component=retried&timeout=2"],
)
def test_who_may_act_and_not_see_values_acts_without_seeing_them(file: Path, path: str, query: str) -> None:
    tokens = Tokens({"a-long-enough-token-here": Identity("ann", "operate")})
    with TestClient(app(file, auth=tokens, values="admin"), base_url="http://dashboard.test") as client:
        client.headers["authorization"] = "Bearer a-long-enough-token-here"
        answer = client.get(f"/runs/open/{path}{'&' if '?' in path else '?'}{query}")

    assert answer.status_code in (200, 409)
    assert WORD not in answer.text
