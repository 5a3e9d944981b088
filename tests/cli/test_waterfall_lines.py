"""The waterfall on a terminal."""

from __future__ import annotations

import pytest

from weft import Run, Workflow, step
from weft import events as ev
from weft.cli.waterfall import TEAR, waterfall_lines

T = 1_000_000.0
SECOND = 10**9


def interrupted() -> Run:
    """Return a run of three hours, of which five seconds were work."""
    workflow = Workflow("w", step(abs, name="a") >> step(abs, name="b"))
    error = ev.ErrorDetail("ConnectionError", (), "no line")
    return Run.from_log(
        [
            workflow.plan(1).log()[0],
            ev.InputReceived(2, 1, 1, at=T, last=True),
            ev.AttemptFailed(3, "a", (2,), error, 1, retry_at=T + 601, at=T + 1, duration_ns=SECOND),
            ev.ReactionOccurred(4, "a", (2,), 1, attempt=2, duration_ns=SECOND, timing=ev.Timing(T + 602)),
            ev.RunTakenOver(5, 1, 2, "b", T + 7802),
            ev.ReactionOccurred(6, "b", (4,), 1, duration_ns=3 * SECOND, timing=ev.Timing(T + 7805)),
        ]
    )


@pytest.mark.parametrize("width", [100, 60])
def test_a_folded_stretch_has_its_length_above_it_and_nothing_is_cut_off(width: int) -> None:
    axis, first, second, *legend = (line.plain for line in waterfall_lines(interrupted(), now=T, width=width))

    folds = [place for place in range(len(first)) if first.startswith(TEAR, place)]
    labels = [axis.index(label) for label in ("10 min", "2 h")]
    assert all(abs(fold - label) <= 4 for fold, label in zip(folds, labels, strict=True))
    assert axis.endswith("+2 h 10 min")
    assert first.endswith("  10 min 2 s  2 attempts")
    assert second.endswith("  2 h")
    assert not any("…" in line for line in (axis, first, second, *legend))
    assert max(map(len, (axis, first, second, *legend))) <= width
    assert "stopped before a retry, fork or takeover 2 h" in " ".join(legend)


def test_a_short_attempt_beside_a_long_wait_can_be_seen() -> None:
    _, first, *_ = (line.plain for line in waterfall_lines(interrupted(), now=T, width=60))

    assert "✗" in first
    assert "▮" in first
