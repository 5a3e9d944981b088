"""
The SQL of this store, read from the files beside this one.

A statement with one row of placeholders can be widened to many rows.  That is what makes a
batch cheap: the interpreter hands over once for 64 rows instead of once for each, and that
is half of what a row costs (benchmarks/stores.py).

    >>> widened("insert into t values (?, ?)", 3)
    'insert into t values (?, ?), (?, ?), (?, ?)'

A statement that joins its rows can be narrowed to one row, which needs no join.  Its values are then bound in another
order, some of them twice: a sequence has to be bound to placeholders without numbers (Python 3.14 refuses others).

    >>> narrowed("update t set a = v.column2\\nfrom (values (?, ?)) as v\\nwhere b = v.column1 and a < v.column2")
    ('update t set a = ?\\nwhere b = ? and a < ?', [1, 0, 1])
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from importlib.resources import files
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

_FOLDER = files("weft.stores.sqlite")
_ROW = re.compile(r"\(\?(?:, \?)*\)")
_VALUES = re.compile(r"^from \(values \(.*\)\) as v\n", re.MULTILINE)
_COLUMN = re.compile(r"\bv\.column(\d+)\b")
_WIDTH = 64

Row = tuple[Any, ...]


class Migration(NamedTuple):
    """One step of the schema."""

    version: int
    script: str


def query(name: str) -> str:
    """Return the statement in ``queries/<name>.sql``, without its comments: they would be parsed each time."""
    lines = (_FOLDER / "queries" / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("--"))


def migrations() -> list[Migration]:
    """Return what is in ``migrations/``, in order: a file is ``<version>_<name>.sql``."""
    found = [
        Migration(int(each.name.partition("_")[0]), each.read_text(encoding="utf-8"))
        for each in (_FOLDER / "migrations").iterdir()
        if each.name.endswith(".sql")
    ]
    return sorted(found)


def widened(sql: str, rows: int) -> str:
    """Return *sql* with its one row of placeholders written *rows* times."""
    return _ROW.sub(lambda row: ", ".join([row[0]] * rows), sql, count=1)


def narrowed(sql: str) -> tuple[str, list[int]]:
    """Return the update *sql* for one row, without the table of rows, and which value of the row goes where."""
    alone = _VALUES.sub("", sql, count=1)
    return _COLUMN.sub("?", alone), [int(number) - 1 for number in _COLUMN.findall(alone)]


class RowStatement:
    """A statement for one row, and for many at once."""

    __slots__ = ("_many", "_one", "_order")

    def __init__(self, name: str) -> None:
        sql = query(name)
        self._one, self._many = sql, widened(sql, _WIDTH)
        self._order: Callable[[Row], Row] | None = None
        if sql.startswith("update"):
            self._one, order = narrowed(sql)
            self._order = itemgetter(*order)

    def execute(self, db: sqlite3.Connection, rows: Sequence[Row]) -> int:
        """Run it for all *rows*, in order; return how many rows of the table it touched."""
        if len(rows) == 1:
            return db.execute(self._one, rows[0] if self._order is None else self._order(rows[0])).rowcount
        touched, wide = 0, len(rows) - len(rows) % _WIDTH
        for start in range(0, wide, _WIDTH):
            touched += db.execute(self._many, list(chain.from_iterable(rows[start : start + _WIDTH]))).rowcount
        if wide < len(rows):
            rest = rows[wide:] if self._order is None else map(self._order, rows[wide:])
            touched += db.executemany(self._one, rest).rowcount
        return touched
