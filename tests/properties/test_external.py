"""
The laws of external steps, in generated orders of attempts, completions, failures, timers, crashes, retries and forks.

A token ends its attempt once; what has ended stays so; a run that is folded from any beginning of its log goes on, and
so does a fork, with its own tokens.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from weft import Policy, Run, Workflow, current, each, reduce, step
from weft.core import events as ev
from weft.core.run.external import parse_token
from weft.errors import InvalidToken

policies = st.builds(
    Policy,
    execution_mode=st.just("external"),
    max_retries=st.integers(0, 2),
    timeout=st.sampled_from([None, 10.0]),
    on_failure=st.sampled_from(["halt", "skip", "dead_letter"]),
)


class Outside:
    """Has all tokens that were handed out, and knows which of them were used."""

    def __init__(self, policy: Policy) -> None:
        self.tokens: list[str] = []
        flow = each(step(self.ask, name="ask")) >> reduce(lambda so_far, x: so_far + x, init=0, name="sum")
        self.workflow = Workflow("w", flow, policies=[("ask", policy)])

    def ask(self, x: int) -> None:
        self.tokens.append(current().token)


def is_in_force(run: Run, token: str) -> bool:
    """Whether the log says that *token* was issued by this run, and that its attempt has not ended."""
    issuer, secret = parse_token(token)
    found = False
    issued: tuple[Any, Any] = (None, None)
    for event in run.log() if issuer == run.id else ():
        if event.seq in run.memory.lineage.void and isinstance(event, ev.TokenIssued):
            continue
        if isinstance(event, ev.TokenIssued) and event.token == secret:
            found, issued = True, (event.component, event.inputs)
        elif isinstance(event, (ev.FailureReceived, ev.AttemptFailed, *ev.ENDINGS)):
            found = found and (event.component, event.inputs) != issued
    return found


@given(policies, st.integers(1, 3), st.lists(st.tuples(st.sampled_from("cftkrg"), st.integers(0, 50)), max_size=25))
def test_a_token_ends_its_attempt_once_whatever_happens_around_it(
    policy: Policy, width: int, doings: list[tuple[str, int]]
) -> None:
    outside = Outside(policy)
    run = outside.workflow.run(list(range(width)))
    for doing, choice in doings:
        token = outside.tokens[choice % len(outside.tokens)]
        before, in_force = len(run.log()), is_in_force(run, token)
        try:
            if doing == "c":
                run.complete(token, choice)
            elif doing == "f":
                run.fail(token, "no")
            assert in_force or doing in "tkrg"
        except InvalidToken:  # expired, or issued after the log was cut
            assert not in_force
            assert len(run.log()) == before
        if doing == "t":
            run.fire_timers(choice * 1e9)
        if doing == "k":
            run = Run.from_log(run.log()[: max(2, len(run.log()) - choice % 3)])
        if doing == "r":
            run.retry()
        if doing == "g":
            run = run.fork() if choice % 2 else run.fork(at=2 + choice % (len(run.log()) - 1))
            assert run.tokens == {}
        run.react_until_satisfied()
        assert Run.from_log(run.log()) == run
        assert set(run.tokens) == {token for token in outside.tokens if is_in_force(run, token)}
        assert (run.status == "waiting") == bool(run.tokens)


@given(policies, st.integers(1, 3))
def test_a_run_can_be_forked_anywhere_and_asks_for_what_is_open(policy: Policy, width: int) -> None:
    outside = Outside(policy)
    run = outside.workflow.run(list(range(width)))
    for token in list(run.tokens):
        run.complete(token, 1)
    run.react_until_satisfied()

    for length in range(2, len(run.log()) + 1):
        asked = len(outside.tokens)
        fork = run.fork(at=length).react_until_satisfied()
        done = sum(isinstance(event, ev.CompletionReceived) for event in run.log()[:length])
        assert len(outside.tokens) - asked == len(fork.tokens) == width - done
        for token in list(fork.tokens):
            fork.complete(token, 1)
        assert fork.react_until_satisfied().results() == {"sum": width}
        assert Run.from_log(fork.log()) == fork


@given(policies, st.integers(1, 3))
def test_a_log_can_be_cut_anywhere_and_goes_on(policy: Policy, width: int) -> None:
    outside = Outside(policy)
    run = outside.workflow.run(list(range(width)))
    for token in list(run.tokens):
        run.complete(token, 1)
    run.react_until_satisfied()

    for length in range(2, len(run.log()) + 1):
        again = Run.from_log(run.log()[:length]).react_until_satisfied()
        for token in list(again.tokens):
            again.complete(token, 1)
        assert again.react_until_satisfied().results() == {"sum": width}
