"""Every example runs as its README says, and prints what it promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTED = {
    "agent/agent.py": ["tool  KeyError: 'tee'", "4 turns, 178 of 400 left: the tea is worth 172 EUR"],
    "document_pipeline/pipeline.py": [
        "8 summaries, one of them 'Paragraph 4 is (by the small model)'",
        "35 tokens streamed, completed",
    ],
    "etl/etl.py": [
        'completed, of 28 files: {"Oslo": 1680.0, "Rome": 840.0}',
        "left out: 2026-11-15.csv: could not convert string to float: 'oops'",
    ],
    "live_upgrade/upgrade.py": ["an upgrade would add receipt and lose nothing", "50 receipts, 100 welcomes"],
    "order_fulfilment/fulfilment.py": [
        "o-2: completed, the saga is aborted, undone: reserve",
        "o-3: completed, the saga is completed",
        "stock: {'tea': 9, 'pot': 0}",
    ],
    "scheduled_report/report.py": ["was killed with -9", "3 reports, 3 different times"],
    "transactional_start/orders.py": ["3 orders, 3 runs", "payments: [('o-1', 10), ('o-2', 20), ('o-4', 40)]"],
}


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_does_what_it_promises(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert [line for line in PRINTED[name] if line not in done.stdout] == [], done.stdout
    assert list(tmp_path.iterdir()) == []  # it leaves nothing behind


def test_every_example_has_a_readme_of_about_ten_lines_and_a_test() -> None:
    folders = sorted(path.parent for path in EXAMPLES.glob("*/README.md"))
    tested = {name.partition("/")[0] for name in PRINTED} | {path.stem for path in Path(__file__).parent.glob("*.py")}

    assert len(folders) >= 6
    assert [folder.name for folder in folders if not {folder.name, f"test_{folder.name}"} & tested] == []
    assert [folder.name for folder in folders if len((folder / "README.md").read_text().splitlines()) > 14] == []
