"""The dashboard as a person uses it: in a browser, with a mouse, with the keyboard alone, and on a phone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from shop import orders, stock
from starlette.applications import Starlette

from weft import AsyncRunner, Runner
from weft import events as ev
from weft.web import app

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGES = (
    "/runs",
    "/runs?view=scatter",
    "/runs/declined",
    "/runs/declined?select=price&tab=elements",
    "/runs/declined/again",
    "/runs/waits",
    "/runs/failed",
    "/runs/waits?list=results",
    "/runs/declined?select=charge&tab=attempts",
    "/runs/declined?select=charge&tab=policy",
    "/runs/declined/value?component=lines",
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


@pytest.mark.parametrize("width", [1440, 360])
def test_the_command_that_goes_on_with_an_interrupted_run_is_copied(open_page: Callable[..., Any], width: int) -> None:
    page = open_page("/problems", width=width)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("row", name="waits, and no process drives it").locator(".id a").click()
    page.locator("b.status", has_text="waiting, no process").wait_for()

    page.get_by_role("button", name="Copy the command").click()
    page.get_by_text("Copied").wait_for()

    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("weft resume waits --import shop --store ")


def test_a_failed_run_has_the_whole_command_that_retries_it(open_page: Callable[..., Any], store: Path) -> None:
    page = open_page("/runs/failed", width=360)

    assert page.locator(".say .command code").inner_text() == f"weft retry failed --import shop --store {store}"


def test_on_a_phone_every_page_of_the_head_is_in_view(open_page: Callable[..., Any]) -> None:
    page = open_page("/runs", width=360)

    for link in page.locator("header nav a").all():
        box = link.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 361


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
    page.get_by_role("link", name="Policy", exact=True).click()
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


# -- the histogram and the scatter ---------------------------------------------------------------


def test_a_span_is_selected_by_dragging_over_the_histogram(open_page: Callable[..., Any]) -> None:
    page = open_page("/runs")
    area = page.locator(".plot").bounding_box()

    page.mouse.move(area["x"] + 0.9 * area["width"], area["y"] + 40)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] - 2, area["y"] + 40, steps=4)
    page.mouse.up()
    page.wait_for_url("**since=*")

    page.get_by_role("link", name="declined").wait_for()
    page.get_by_title("the last 24 h again").click()
    page.wait_for_url(lambda url: "since" not in url)


def test_a_span_without_runs_is_selected_with_the_keyboard(open_page: Callable[..., Any]) -> None:
    page = open_page("/runs")
    page.locator(".plot").focus()

    page.keyboard.press("Home")
    page.keyboard.press("Shift+ArrowRight")
    page.get_by_text("enter shows these runs").wait_for()
    page.keyboard.press("Enter")

    page.wait_for_url("**since=*")
    page.get_by_text("No run fits these filters.").wait_for()


def test_points_of_the_scatter_are_selected_by_a_box_and_cancelled_together(
    open_page: Callable[..., Any], store: Path
) -> None:
    page = open_page("/runs?view=scatter&status=waiting")
    area = page.locator(".scatter").bounding_box()

    page.mouse.move(area["x"] + 2, area["y"] + 2)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] - 2, area["y"] + area["height"] - 2, steps=4)
    page.mouse.up()
    page.get_by_text("2 selected").wait_for()
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.wait_for_url("**/runs")

    with Runner(store) as runner:
        runner.register(orders)
        for id in ("waits", "declined"):
            runner.resume(id)
            assert [event.by for event in runner.log(id) if isinstance(event, ev.RunCancelled)] == ["local"]


# -- what one reads stays -----------------------------------------------------------------------


def test_a_new_run_slides_in_and_the_row_under_the_mouse_stays(open_page: Callable[..., Any], store: Path) -> None:
    with Runner(store) as runner:
        runner.start_many(orders, [{"lines": 1}] * 40, ids=[f"more-{number}" for number in range(40)])
        page = open_page("/runs?sort=age")
        row = page.locator('tr[data-id="more-3"]')
        row.hover()
        before = row.bounding_box()["y"]
        runner.start(orders, {"lines": 1}, id="another")
        page.locator('tr.new[data-id="another"]').wait_for(state="attached")

    assert abs(row.bounding_box()["y"] - before) <= 1


def test_what_is_folded_stays_when_the_page_of_a_run_is_told_of_a_change(
    open_page: Callable[..., Any], store: Path
) -> None:
    page = open_page("/runs/waits?select=lines")
    page.locator(".tree summary").first.click()
    with Runner(store) as runner:
        runner.register(orders)
        runner.resume("waits")
        runner.signal("waits", "approved", {"ok": True}, by="grace")
        runner.wait("waits")
    page.locator("b.status", has_text="completed").wait_for()

    assert page.locator(".tree details").first.get_attribute("open") is None


# -- the inspector ------------------------------------------------------------------------------


def test_an_element_of_a_map_is_searched_for_and_opened(open_page: Callable[..., Any]) -> None:
    page = open_page("/runs/declined?select=price")
    page.get_by_role("link", name="Elements 30").click()
    page.get_by_label("Search the elements").fill("337.5")
    page.get_by_role("button", name="Search").click()
    page.get_by_text("1 of 1", exact=False).wait_for()
    page.get_by_role("link", name="27", exact=True).click()

    page.wait_for_url("**element=27*")
    page.get_by_title("all elements").wait_for()
    assert "337.5" in page.locator(".tree").inner_text()


def test_every_tab_of_the_inspector_opens_and_causes_move_the_selection(open_page: Callable[..., Any]) -> None:
    page = open_page("/runs/declined?select=charge")
    for name in ("Causes", "Effects 1", "Attempts 1", "Policy", "Code"):
        page.locator(".under-head").get_by_role("link", name=name).click()
        page.locator(".under-head [aria-current]", has_text=name).wait_for()
    page.locator(".under-head").get_by_role("link", name="Causes").click()
    page.locator(".lineage").get_by_role("link", name="total").click()

    page.locator('.inspector[aria-label="Inspector: total"]').wait_for()


def test_more_of_a_large_value_is_fetched_when_it_is_opened(open_page: Callable[..., Any], store: Path) -> None:
    with Runner(store) as runner:
        runner.start(orders, {"lines": 70}, id="long")
        runner.wait_until("long", lambda run: "approved" in run.waiting_for)
    page = open_page("/runs/long?select=lines")

    page.get_by_role("link", name="… 20 more").click()

    page.locator(".tree code", has_text="69").wait_for()


def test_on_a_phone_the_inspector_is_a_sheet_from_below(open_page: Callable[..., Any]) -> None:
    page = open_page("/runs/declined", width=360)
    inspector = page.locator(".inspector")
    assert inspector.bounding_box()["height"] <= 60

    page.emulate_media(reduced_motion="reduce")
    page.locator('.fall [data-name="charge"]').click()
    page.locator(".inspector.up").wait_for()

    assert inspector.bounding_box()["height"] > 200
    assert inspector.bounding_box()["y"] + inspector.bounding_box()["height"] <= 901


def test_nothing_moves_where_the_system_asks_for_that(open_page: Callable[..., Any]) -> None:
    page = open_page("/runs/declined", width=360)
    page.emulate_media(reduced_motion="reduce")
    moving = (
        "e => { const s = getComputedStyle(e); return s.transitionDuration !== '0s' || s.animationName !== 'none' }"
    )

    assert page.evaluate(f"[...document.querySelectorAll('*')].filter({moving}).length") == 0


def test_what_has_the_focus_can_be_seen(open_page: Callable[..., Any]) -> None:
    page = open_page("/runs")
    for _ in range(14):
        page.keyboard.press("Tab")
        style, width = page.evaluate(OUTLINE)
        assert style != "none"
        assert width >= 1


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_has_a_name_and_enough_contrast(open_page: Callable[..., Any], path: str, scheme: str) -> None:
    page = open_page(path, scheme=scheme)

    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(PALE) == []


OUTLINE = """() => {
  const style = getComputedStyle(document.activeElement);
  return [style.outlineStyle, parseFloat(style.outlineWidth)];
}"""

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


def test_what_is_for_browsers_without_scripts_is_not_done(open_page: Callable[..., Any]) -> None:
    page = open_page("/runs/waits")
    body = (
        '<main id="main"><noscript><meta http-equiv="refresh" content="0;url=/problems"></noscript><h1>Read</h1></main>'
    )
    page.route("**/runs/waits?select=price", lambda route: route.fulfill(body=body, content_type="text/html"))
    page.evaluate("show(new URL('?select=price', location))")
    page.get_by_role("heading", name="Read").wait_for()

    assert page.locator("main meta").count() == 0
    assert page.url.endswith("/runs/waits?select=price")


def test_enter_in_a_field_of_the_selection_does_nothing(open_page: Callable[..., Any]) -> None:
    page = open_page("/runs")
    page.locator("input[value=declined]").check()
    page.get_by_placeholder("Reason, for cancelled runs").fill("wrong file")
    page.keyboard.press("Enter")
    page.locator("#many details").get_by_text("Signal…").click()
    page.locator("#many input[name=name]").fill("approved")
    page.keyboard.press("Enter")

    assert page.get_by_text("1 selected").is_visible()
    assert page.url.endswith("/runs")


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/workflows/orders", "table.usual td:first-child"),
        ("/runs/declined?select=price&tab=elements", "table.elements-found td:first-child"),
    ],
)
def test_on_a_phone_a_table_has_the_names_of_its_rows(open_page: Callable[..., Any], path: str, names: str) -> None:
    page = open_page(path, width=360)

    assert page.locator(names).first.is_visible()


def test_a_line_to_what_is_chosen_is_marked_in_all_its_pieces(open_page: Callable[..., Any]) -> None:
    page = open_page("/runs/declined?select=ship")

    join = ".graph g[data-join=ship] > path:first-child"
    pieces = page.locator(f".graph path[data-to=ship], .graph path[data-trunk=ship], {join}")
    marked = pieces.evaluate_all("each => each.map(path => path.classList.contains('up'))")
    assert len(marked) >= 3
    assert all(marked)


def test_the_rows_of_the_grid_keep_their_names_on_a_phone(open_page: Callable[..., Any], store: Path) -> None:
    with Runner(store, executor="inline") as runner:
        runner.start_many(stock, ["SKU"] * 60).gather(return_exceptions=True)
    page = open_page("/workflows/stock", width=360)

    name = page.locator("table.grid th").first.bounding_box()
    assert page.locator(".scroll").first.evaluate("each => each.scrollLeft") > 200  # the latest runs are shown
    assert name is not None
    assert name["x"] >= 0
