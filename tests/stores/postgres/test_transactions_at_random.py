"""Transactional steps whose process is killed again and again, at points that are drawn."""

from __future__ import annotations

import os
import signal
import uuid
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from killed_transactions import completions, rows, run, transacting
from servers import asked

EXAMPLES = 25 if "WEFT_THOROUGH" in os.environ else 1

kills = st.lists(st.tuples(st.sampled_from(transacting.POINTS), st.integers(1, 6)), min_size=1, max_size=3)


@pytest.mark.slow
@settings(max_examples=EXAMPLES)
@example([("appended", 1), ("folded", 3)])
@given(kills)
def test_whatever_kills_there_were_each_step_has_committed_its_row_once(
    server_dsn: str, drawn: list[tuple[str, int]]
) -> None:
    schema = f"t {uuid.uuid4().hex}"
    name = schema.replace("t ", "app_")
    asked(
        server_dsn,
        lambda db: db.execute(f"create schema {name}; create table {name}.shop_rows (component text, key text)"),
    )
    where = f"{server_dsn}{'&' if '?' in server_dsn else '?'}options=-csearch_path%3D{name}"
    before = Counter[tuple[str, str]]()
    for point, time in drawn:
        ended = run(where, schema, point, time)
        assert ended.returncode in {0, -signal.SIGKILL}, ended.stderr  # it may come to its end before that point

        found = rows(where)
        assert before <= found  # what was committed stays
        assert set(found.values()) <= {1}
        if found:
            assert Counter(component for component, _ in found) == completions(where, schema)
        before = found

    resumed = run(where, schema)

    assert (resumed.returncode, resumed.stdout) == (0, "3\n"), resumed.stderr
    written = rows(where)
    assert set(written.values()) == {1}
    assert written.total() == transacting.EXPECTED
    assert Counter(component for component, _ in written) == completions(where, schema)
    asked(server_dsn, lambda db: db.execute(f'drop schema {name} cascade; drop schema "{schema}" cascade'))
