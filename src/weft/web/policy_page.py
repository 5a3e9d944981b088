"""The page that changes the policy of one component in one run, and shows what that affects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from starlette.requests import Request
from starlette.responses import Response

from weft.core.run.run import Run
from weft.errors import InvalidPolicy, WeftError
from weft.policy import Policy
from weft.policy.policy import OnFailure
from weft.web.inspector import policy_text
from weft.web.rendering import data, page
from weft.web.sight import source_of

NUMBERS: Final = {
    "max_retries": "attempts after the first one",
    "base_delay": "seconds before the first retry",
    "timeout": "seconds for one attempt",
    "deadline": "seconds for all attempts",
    "delay": "seconds before the first attempt",
    "priority": "the highest is started first",
}
"""The fields of a policy that are numbers, and what they say."""
CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "backoff": ("none", "linear", "exponential", "jitter"),
    "on_failure": get_args(OnFailure),
}


async def policy_page(request: Request) -> Response:
    """Show the policy of the component ``?component=``, and what the fields in the address would change."""
    source = source_of(request)
    query = request.query_params
    record, run = await source.run(request.path_params["id"])
    names = list(run.memory.workflow.components)
    component = query.get("component") or names[0]
    given = {name: query[name] for name in (*NUMBERS, *CHOICES) if query.get(name, "").strip()}
    touched: list[str] | None = None
    wrong = None
    try:
        if given:
            rule = policy_rule(component, query)
            touched = [str(each) for each in run.preview([rule], mode="merge")]
    except WeftError as error:
        wrong = str(error)
    present, now = policy_text(run, component), _present(run, component)
    if query.get("format") == "json":
        shown = {"component": component, "policy": present, "touches": touched, "error": wrong}
        return data(shown, status=200 if wrong is None else 409)
    return page(
        request,
        "policy.html",
        record=record,
        names=names,
        component=component,
        numbers=NUMBERS,
        choices=CHOICES,
        given=given,
        present=present,
        now=now,
        touched=touched,
        wrong=wrong,
    )


def _present(run: Run, component: str) -> dict[str, str]:
    """Return what the fields of the form say now."""
    try:
        policy = run.explain_policy(component).policy
    except Exception:  # noqa: BLE001 - a policy of code that is not here
        return {}
    said = {name: getattr(policy, name) for name in (*NUMBERS, *CHOICES)}
    return {
        name: f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in said.items()
        if value is not None
    }


def policy_rule(component: str, form: Mapping[str, str]) -> tuple[str, Policy]:
    """
    Return the rule that a form makes.

    >>> policy_rule("charge", {"max_retries": "3", "timeout": "", "on_failure": "skip"})
    ('charge', Policy(max_retries=3, on_failure='skip'))

    Raises:
        InvalidPolicy: a field that is not a number, or a policy that makes no sense.
    """
    fields: dict[str, Any] = {name: form[name] for name in CHOICES if form.get(name)}
    for name in NUMBERS:
        text = form.get(name, "").strip()
        if text:
            try:
                fields[name] = int(text) if name in ("max_retries", "priority") else float(text)
            except ValueError as error:
                raise InvalidPolicy(f"{name}: {text[:40]!r} is not a number") from error
    if not fields:
        raise InvalidPolicy("nothing was filled in")
    return component, Policy(**fields)
