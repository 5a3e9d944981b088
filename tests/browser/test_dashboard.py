"""The dashboard as a person uses it: in a browser, with a mouse, with the keyboard alone, and on a phone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from shop import orders
from starlette.applications import Starlette

from weft import AsyncRunner, Runner
from weft import events as ev
from weft.web import app

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGES = (
    "/runs",
    "/runs/declined",
    "/runs/waits",
    "/runs/declined/fork",
    "/runs/waits/policy?component=ship&max_retries=2",
    "/runs/done/compare?with=declined",
    "/problems",
    "/workflows",
    "/workflows/orders",
    "/schedules",
    "/workers",
    "/limits",
    "/versions",
)


def is_retry(event: object) -> bool:
    return isinstance(event, ev.RunRetried)


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (1024, "dark"), (360, "light")])
def test_no_page_scrolls_sideways(open_page: Callable[..., Any], path: str, width: int, scheme: str) -> None:
    page = open_page(path, width=width, scheme=scheme)

    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_problem_is_found_in_two_clicks_and_retried_in_the_third(open_page: Callable[..., Any], store: Path) -> None:
    page = open_page("/problems")
    page.get_by_role("link", name="declined").click()
    assert page.get_by_text("CardDeclined: do_not_honor").first.is_visible()
    page.get_by_role("button", name="Retry charge").click()
    page.wait_for_url("**/runs/declined")

    with Runner(store) as runner:
        runner.register(orders)
        runner.resume("declined")
        runner.wait_until("declined", lambda run: any(map(is_retry, run.log())))
        assert [event.by for event in runner.log("declined") if isinstance(event, ev.RunRetried)] == ["local"]


def test_an_approval_is_given_in_the_inspector(open_page: Callable[..., Any], store: Path) -> None:
    page = open_page("/runs/waits")
    page.get_by_role("link", name="Answer…").click()
    page.get_by_label("yes").check()
    page.get_by_label("note").fill("7 is fine")
    page.get_by_role("button", name="Send").last.click()
    page.wait_for_url("**/runs/waits")

    with Runner(store) as runner:
        runner.register(orders)
        runner.resume("waits").result()
        taken = [event for event in runner.log("waits") if isinstance(event, ev.SignalReceived)]
        assert [(event.value, event.by) for event in taken] == [({"ok": True, "note": "7 is fine"}, "local")]


def test_a_fork_is_made_after_a_look_at_what_would_run(browser: Any, serve: Callable[[Any], str], store: Path) -> None:
    page = browser.new_page()
    page.goto(f"{serve(driving(store))}/runs/done?select=total")
    page.get_by_role("link", name="Fork…").click()
    page.get_by_label("Its value, as JSON").fill("90.5")
    page.get_by_role("button", name="Preview").click()
    assert "charge" in page.get_by_label("Preview", exact=True).inner_text()
    page.get_by_label("Id of the fork").fill("again")
    page.get_by_role("button", name="Fork", exact=True).click()
    page.wait_for_url("**/runs/done/compare?with=again")

    page.get_by_role("cell", name="{'charged': 90.5}").wait_for()
    page.close()


def test_a_change_while_someone_types_is_shown_when_they_have_finished(
    open_page: Callable[..., Any], store: Path
) -> None:
    page = open_page("/runs/waits?select=approved")
    page.get_by_label("note").focus()
    with Runner(store) as runner:
        runner.signal("waits", "approved", {"ok": True}, by="grace")
        runner.register(orders)
        runner.resume("waits").result()
    page.get_by_label("note").blur()

    page.locator("b.status", has_text="completed").wait_for()


def test_a_policy_is_changed_for_one_run(open_page: Callable[..., Any], store: Path) -> None:
    page = open_page("/runs/waits?select=ship")
    page.get_by_text("Policy", exact=True).click()
    page.get_by_role("link", name="Change it for this run…").click()
    page.get_by_label("max_retries").fill("4")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Change the policy").click()
    page.wait_for_url("**/runs/waits")

    with Runner(store) as runner:
        runner.register(orders)
        runner.resume("waits")
        run = runner.wait_until("waits", lambda run: run.explain_policy("ship").policy.max_retries == 4)
        assert [event.by for event in run.log() if isinstance(event, ev.PolicyChanged)] == ["local"]


def test_a_schedule_is_paused_and_another_browser_sees_it(open_page: Callable[..., Any]) -> None:
    page, other = open_page("/schedules"), open_page("/schedules", width=360)
    row = page.get_by_role("row", name="nightly")
    row.get_by_role("button", name="Pause").click()
    page.wait_for_url("**/schedules")

    row.get_by_text("paused by local").wait_for()
    other.get_by_text("paused by local").wait_for()


def test_a_schedule_is_backfilled_with_the_keyboard_alone(open_page: Callable[..., Any], store: Path) -> None:
    page = open_page("/runs")
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_url("**/schedules")
    page.get_by_label("Backfill nightly").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("2026-01-01")
    page.keyboard.press("Tab")
    page.keyboard.type("2026-01-04")
    page.keyboard.press("Enter")
    page.get_by_text("backfilled by local").wait_for()

    with Runner(store) as runner:
        (found,) = [each for each in runner.schedules() if each.name == "nightly"]
        assert found.backfills == 1


def test_runs_are_selected_with_the_keyboard_and_cancelled_together(open_page: Callable[..., Any], store: Path) -> None:
    page = open_page("/runs?status=waiting&status=idle&status=running")
    for _ in range(2):
        page.keyboard.press("j")
        page.keyboard.press("x")
    page.get_by_text("2 selected").wait_for()
    page.get_by_placeholder("Reason, for cancelled runs").fill("test over")
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.wait_for_url("**/runs")

    with Runner(store) as runner:
        runner.register(orders)
        for id in ("waits", "declined"):
            runner.resume(id)
            cancelled = [event for event in runner.log(id) if isinstance(event, ev.RunCancelled)]
            assert [(event.reason, event.by) for event in cancelled] == [("test over", "local")]


def test_a_selection_stays_when_the_list_changes(open_page: Callable[..., Any], store: Path) -> None:
    page = open_page("/runs")
    page.get_by_label("Select waits").check()
    with Runner(store) as runner:
        runner.start(orders, {"lines": 1}, id="another")
        page.get_by_role("link", name="another").wait_for()

    assert page.get_by_label("Select waits").is_checked()
    assert page.get_by_text("1 selected").is_visible()


@pytest.mark.parametrize(("key", "place"), [("s", "schedules"), ("f", "workers"), ("l", "limits"), ("v", "versions")])
def test_every_page_is_two_keys_away(open_page: Callable[..., Any], key: str, place: str) -> None:
    page = open_page("/runs")

    page.keyboard.press("g")
    page.keyboard.press(key)

    page.wait_for_url(f"**/{place}")


def test_the_processes_that_hold_runs_come_and_go(open_page: Callable[..., Any], store: Path) -> None:
    page = open_page("/workers")
    page.get_by_text("No process holds an open run now.").wait_for()

    with Runner(store) as runner:
        runner.register(orders)
        runner.resume("waits")
        page.get_by_role("cell", name="process").wait_for()
    page.get_by_text("No process holds an open run now.").wait_for()


def driving(store: Path) -> Any:
    """Return the dashboard in a service that drives the runs of the store."""

    @asynccontextmanager
    async def lifespan(service: Starlette) -> AsyncIterator[None]:
        async with AsyncRunner(store) as runner:
            runner.register(orders)
            service.mount("/", app(runner))
            yield

    return Starlette(lifespan=lifespan)


def test_a_box_of_the_graph_opens_its_component(open_page: Callable[..., Any]) -> None:
    page = open_page("/runs/declined")

    page.locator('.graph [data-name="lines"]').click()
    page.locator('.inspector[aria-label="Inspector: lines"]').wait_for()

    assert "select=lines" in page.url


def test_the_address_reproduces_what_one_sees(open_page: Callable[..., Any]) -> None:
    page = open_page("/runs/declined?at=3&select=lines")

    assert page.locator(".when output").inner_text().startswith("event 3 of ")
    assert page.locator('.inspector[aria-label="Inspector: lines"]').is_visible()


def test_brackets_step_through_the_events(open_page: Callable[..., Any]) -> None:
    page = open_page("/runs/done?at=5")

    page.keyboard.press("[")
    page.wait_for_url("**at=4*")
    page.keyboard.press("]")
    page.wait_for_url("**at=5*")


def test_the_keyboard_alone_opens_the_run_that_needs_attention(open_page: Callable[..., Any]) -> None:
    page = open_page("/runs")

    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/*")
    page.keyboard.press("g")
    page.keyboard.press("p")
    page.wait_for_url("**/problems")


def test_a_page_of_a_run_follows_what_happens(open_page: Callable[..., Any], store: Path) -> None:
    page = open_page("/runs/waits")
    page.locator("b.status", has_text="waiting").wait_for()

    with Runner(store) as runner:
        runner.register(orders)
        runner.resume("waits")
        runner.signal("waits", "approved", {"ok": True}, by="grace")
        runner.wait("waits")

    page.locator("b.status", has_text="completed").wait_for()


def test_the_theme_can_be_switched_and_is_remembered(open_page: Callable[..., Any]) -> None:
    page = open_page("/runs")
    ground = "getComputedStyle(document.body).backgroundColor"

    before = page.evaluate(ground)
    page.get_by_role("button", name="Theme").click()
    page.get_by_role("button", name="Theme").click()
    dark = page.evaluate(ground)
    page.reload()

    assert dark != before
    assert page.evaluate(ground) == dark


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_has_a_name_and_enough_contrast(open_page: Callable[..., Any], path: str, scheme: str) -> None:
    page = open_page(path, scheme=scheme)

    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(PALE) == []


NAMELESS = """() => {
  const named = e => e.ariaLabel || e.textContent.trim() || e.labels?.length || e.title;
  const controls = 'a, button, input:not([type=hidden]), select, textarea, [role=button]';
  return [...document.querySelectorAll(controls)].filter(e => e.checkVisibility() && !named(e))
    .map(e => e.outerHTML.slice(0, 120));
}"""

PALE = """() => {
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = colour => colour.slice(0, 3).map(v => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const ground = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
  const says = e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  const texts = [...document.querySelectorAll('main *, header *')]
    .filter(e => e.checkVisibility() && !e.closest('svg, .sr') && says(e));
  return texts.filter(e => { const a = light(parse(getComputedStyle(e).color)), b = light(ground(e));
    return (Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5; }).map(e => e.outerHTML.slice(0, 120));
}"""
