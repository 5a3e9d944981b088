"""
The outcome of a finished run, as the run's record has it: results, output and failures.

    >>> outcome = RunOutcome(1, {"double": 4}, "double", 4)
    >>> decode_outcome(encode_outcome(outcome)) == outcome
    True

An outcome that is too large for a record is not written there, and one whose values need a class that is not registered
here cannot be read from there: in both cases the log has it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from weft.core.events import ErrorDetail, RunnableFailed
from weft.core.functions.references import MISSING
from weft.core.graph.outputs import Output
from weft.core.run.input_results import failures_of, known_results_of, last_result, output_of_input, results_of
from weft.core.run.run import Run
from weft.errors import CorruptLog, HistoryTruncated, NothingProduced, UnencodableValue
from weft.log.value_decoder import Values
from weft.log.value_encoder import SHORT, encode_small

LARGEST: Final = 1 << 16
"""How many bytes an outcome in a record has at most."""

_VERSION: Final = 1

_encode = msgspec.msgpack.Encoder().encode


class RunOutcome(msgspec.Struct, frozen=True, gc=False):  # as untracked as the events that hold the same values
    """The results of one input, the last one of a finished run."""

    ordinal: int
    """The number of the input; 0 if the run has had none."""
    results: dict[str, Any]
    leaf: str | None = None
    """The leaf whose result is the output; None if the output is not the result of one leaf."""
    output: Any = MISSING
    """MISSING if there is none."""
    nothing: tuple[str, str] | None = None
    """The component that has produced nothing, and why, if that is the reason that there is no output."""
    failures: tuple[RunnableFailed, ...] = ()
    """The failures that nothing has handled."""
    successor: str | None = None
    """The run that continues from the state of this one, if there is one."""


def outcome_of(run: Run, ordinal: int) -> RunOutcome:
    """Return what came of the input *ordinal* of *run*; nothing if it has not had that input."""
    memory = run.memory
    if not 0 < ordinal <= memory.received:
        return RunOutcome(0, {})
    failures = tuple(failures_of(run, ordinal)) if memory.failures else ()
    returns = memory.workflow.returns
    if type(returns) is Output and (value := last_result(memory, returns.component)) is not MISSING:
        return RunOutcome(ordinal, {returns.component: value}, returns.component, value, None, failures)
    results = results_of(run, ordinal)
    if type(returns) is Output and returns.component in results:  # the usual case
        return RunOutcome(ordinal, results, returns.component, results[returns.component], None, failures)
    try:
        output = output_of_input(run, ordinal)
    except NothingProduced as error:
        return RunOutcome(ordinal, results, nothing=(error.name, error.reason), failures=failures)
    return RunOutcome(ordinal, results, None, output, None, failures)


def known_outcome_of(run: Run, ordinal: int, error: HistoryTruncated) -> RunOutcome:
    """Return what is known of the outcome of the input *ordinal* of *run*, whose log is truncated: *error* says so."""
    try:
        failures = tuple(failures_of(run, ordinal))
    except HistoryTruncated:
        failures = ()
    nothing = (run.memory.workflow.name, str(error))
    return RunOutcome(ordinal, known_results_of(run, ordinal), nothing=nothing, failures=failures)


def encode_outcome(outcome: RunOutcome) -> bytes:
    """Return *outcome* as bytes; none if it is too large for a record, or cannot be written."""
    results = outcome.results
    is_simple = not outcome.failures and outcome.leaf is not None and outcome.successor is None
    if is_simple and SHORT.issuperset(map(type, results.values())):
        try:  # the usual case
            return _encode((_VERSION, outcome.ordinal, results, outcome.leaf, False, None, None, ()))
        except (OverflowError, UnicodeEncodeError):
            pass
    if any(isinstance(value, str | bytes | bytearray) and len(value) > LARGEST for value in results.values()):
        return b""
    has_own = outcome.leaf is None and outcome.output is not MISSING
    failures = [
        [each.seq, each.component, each.attempts, each.on_failure, *_detail(each.error)] for each in outcome.failures
    ]
    plain = [
        *(_VERSION, outcome.ordinal, results, outcome.leaf, has_own, outcome.output if has_own else None),
        *(None if outcome.nothing is None else list(outcome.nothing), failures),
        *([] if outcome.successor is None else [outcome.successor]),
    ]
    try:
        body = encode_small(plain)
    except UnencodableValue:  # for instance, a class that is not data; the log says so
        return b""
    return b"" if body is None or len(body) > LARGEST else body


def decode_outcome(body: bytes) -> RunOutcome | None:
    """
    Return the outcome in a record; None if the log has to be read for it.

    Raises:
        CorruptLog: these bytes are not an outcome.
    """
    if not body:
        return None
    values = Values()
    try:
        version, ordinal, results, leaf, has_own, own, nothing, failures, *more = values.decode(body)
        if version != _VERSION or values.unknown:
            return None
        output = own if has_own else MISSING if leaf is None else results[leaf]
        failed = tuple(
            RunnableFailed(seq, component, (), ErrorDetail(kind, tuple(bases), *text), attempts, 0, on_failure)
            for seq, component, attempts, on_failure, kind, bases, *text in failures
        )
        nothing = None if nothing is None else tuple(nothing)
        return RunOutcome(ordinal, results, leaf, output, nothing, failed, *more)
    except CorruptLog:
        raise
    except Exception as error:
        raise CorruptLog(f"the outcome in a record cannot be read: {error!r:.100}") from error


def _detail(error: ErrorDetail) -> tuple[str, list[str], str, str]:
    return error.type, list(error.bases), error.message, error.traceback
