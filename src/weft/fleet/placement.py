"""
Computes in which of several databases (*shards*) a run is, from its id and the shards that the fleet has had.

A key is placed by a hash that is the same in every process.  When shards join, a key stays where it was or moves to one
of the new shards; its former places stay known, since what exists is never moved.  See docs/adr/0054.

    >>> one = Generations().grown({"a", "b"})
    >>> two = one.grown({"a", "b", "c"})
    >>> one.homes("order-7"), two.homes("order-7"), two.homes("order-8")
    (('b',), ('b',), ('c', 'a'))
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

from weft.errors import ShardsChanged
from weft.runner.registry.run_keys import key_of

JOINING: Final = "joining"
"""The fence of a database that is to be one of several, and of which it is not decided."""
ALONE: Final = ""
"""The fence of a database that is not one of several."""


class Joined(NamedTuple):
    """A shard: with which generation it joined, and whether it had runs before."""

    since: int
    had_runs: bool = False


class Generations:
    """The shards that there are, by id; only :meth:`grown` makes others of them."""

    def __init__(self, shards: Mapping[str, Joined] | None = None) -> None:
        self.shards: Mapping[str, Joined] = dict(sorted((shards or {}).items()))
        self._of_slot = lru_cache(maxsize=1 << 16)(self._homes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Generations) and self.shards == other.shards

    def __hash__(self) -> int:
        return hash(self.fence)

    def __repr__(self) -> str:
        return f"Generations({self.shards!r})"

    @cached_property
    def newest(self) -> int:
        """The number of the last generation; 0 if there is none."""
        return max((each.since for each in self.shards.values()), default=0)

    @cached_property
    def fence(self) -> str:
        """A text that differs from the one of all other generations."""
        if not self.shards:
            return ALONE
        told = "".join(f"{shard} {since} {int(had)}\n" for shard, (since, had) in self.shards.items())
        return f"{self.newest}:{_hashed(told).hex()}"

    @property
    def first(self) -> str:
        """The shard that decides which list is the next one."""
        return next(iter(self.shards))

    def homes(self, id: str) -> tuple[str, ...]:
        """Return the shards that may have the run *id*, in the order in which to ask them; the first has a new one."""
        return self._of_slot(int.from_bytes(_hashed(key_of(id))[:2]))

    def _homes(self, slot: int) -> tuple[str, ...]:
        drawn = sorted(((_hashed(f"{slot} {shard}"), shard) for shard in self.shards), reverse=True)
        ordered = [shard for _, shard in drawn]
        homes: dict[str, None] = {}
        for generation in range(self.newest, 0, -1):
            homes.setdefault(next(shard for shard in ordered if self.shards[shard].since <= generation))
        homes.update((shard, None) for shard, each in self.shards.items() if each.had_runs and shard not in homes)
        return tuple(homes)

    def grown(self, shards: Collection[str], had_runs: Collection[str] = ()) -> Generations:
        """
        Return the generations if *shards* is the list from now on; *had_runs* are new ones that have runs.

        Raises:
            ShardsChanged: *shards* lacks some that are known.
        """
        if missing := len(self.shards.keys() - set(shards)):
            raise ShardsChanged(f"{missing} of the {len(self.shards)} databases of this fleet were not named")
        new = {shard: Joined(self.newest + 1, shard in had_runs) for shard in shards if shard not in self.shards}
        return Generations({**self.shards, **new}) if new else self

    def extends(self, other: Generations) -> bool:
        """
        Return whether *other* is one of the generations before this one, or this one.

        >>> one = Generations().grown({"a", "b"})
        >>> one.grown({"a", "b", "c"}).extends(one), one.grown({"a", "b", "c"}).extends(one.grown({"a", "b", "d"}))
        (True, False)
        """
        return other.shards == {shard: each for shard, each in self.shards.items() if each.since <= other.newest}


def agreed(found: Iterable[Generations]) -> Generations:
    """
    Return the newest of the generations that databases were *found* to have.

    Raises:
        ShardsChanged: they are not of one fleet.
    """
    known = list(found)
    newest = max(known, key=lambda each: each.newest, default=Generations())
    if not all(newest.extends(each) for each in known):
        raise ShardsChanged("the databases that were named belong to different fleets")
    return newest


def _hashed(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
