"""
The SQL of this store, read from the files beside this one.

Values are always bound.  The name of the schema cannot be bound, so it is written into the text, quoted; and so are
the parts of statements that are in other files (``{record}``, ``{program}``), and the channel of the schema.

    >>> quoted('the "other" schema')
    '"the ""other"" schema"'
"""

from __future__ import annotations

import functools
import hashlib
import re
from importlib.resources import files
from typing import NamedTuple

from weft.errors import InvalidStoreOption

_FOLDER = files("weft.stores.postgres")
_PARTS = ("record", "free", "known", "program", "unheard")
_LONGEST = 63  # bytes of a name; PostgreSQL cuts longer ones off
_VALUE = re.compile(r"\$\d+::([a-z]+(?:\[\])?)")


class Migration(NamedTuple):
    """One step of the schema."""

    version: int
    script: str


def quoted(name: str) -> str:
    """
    Return *name* as an identifier.

    Raises:
        InvalidStoreOption: it cannot be one.
    """
    if not name or "\0" in name or len(name.encode("utf-8", "replace")) > _LONGEST:
        raise InvalidStoreOption(
            f"{name!r} cannot be the name of a schema or a role; use 1 to {_LONGEST} bytes of text"
        )
    return '"' + name.replace('"', '""') + '"'


@functools.cache
def part(name: str) -> str:
    """Return what is in ``queries/<name>.sql``, without its comments."""
    lines = (_FOLDER / "queries" / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("--"))


@functools.cache
def _migrations() -> tuple[Migration, ...]:
    found = [
        Migration(int(each.name.partition("_")[0]), each.read_text(encoding="utf-8"))
        for each in (_FOLDER / "migrations").iterdir()
        if each.name.endswith(".sql")
    ]
    return tuple(sorted(found))


class Statements:
    """The statements for the tables in one *schema*."""

    def __init__(self, schema: str) -> None:
        self.schema = quoted(schema)
        named = hashlib.sha256(schema.encode("utf-8", "replace")).hexdigest()[:24]
        self.channel = f"weft_queue_{named}"
        """The channel that notifies workers of runs that may be free and due."""
        self.changes = f"weft_changes_{named}"
        """The channel that notifies waiting callers of changed runs."""
        self.followers = f"weft_followers_{named}"
        """The channel that notifies owners of runs that are followed."""
        self.tasks = f"weft_tasks_{named}"
        """The channel that notifies workers of a step in a queue; the payload is the queue."""
        self._rendered: dict[str, str] = {}
        self._kept: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        """Return the statement in ``queries/<name>.sql``."""
        text = self._rendered.get(name)
        if text is None:
            text = self._rendered[name] = self._in_schema(part(name))
        return text

    def kept(self, name: str) -> str:
        """
        Return the statement in ``queries/<name>.sql`` in a form whose plan the server keeps after a few executions.

        The planner does not see the values in it.  Where it does, a list that is shorter than it would assume makes a
        new plan look cheaper than the one that it could keep, and of a claim that finds nothing the plan takes five
        times as long as the rest.  Use it where little is found: the plan that is kept may be one for small tables.
        The type of each value has to stand behind it.

            >>> Statements("weft").kept("existing").partition("where ")[2]
            'id = any((select $1::text[])::text[])'
        """
        text = self._kept.get(name)
        if text is None:
            text = self._kept[name] = _VALUE.sub(r"(select \g<0>)::\1", self[name])
        return text

    @property
    def newest(self) -> int:
        """The version of the last of :meth:`migrations`."""
        return _migrations()[-1].version

    def migrations(self) -> list[Migration]:
        """Return the files in ``migrations/``, in order: a file is ``<version>_<name>.sql``."""
        return [Migration(version, self._in_schema(script)) for version, script in _migrations()]

    def _in_schema(self, text: str) -> str:
        for name in _PARTS:
            text = text.replace(f"{{{name}}}", part(name))
        return text.replace("{channel}", self.channel).replace("{tasks}", self.tasks).replace("{schema}", self.schema)
