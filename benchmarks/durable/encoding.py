"""
Events as bytes: what encoding and decoding one takes, and how many bytes a step that does nothing leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from benchmarks.durable.line import Line
from benchmarks.durable.sampling import Samples, Seen, in_turns
from benchmarks.durable.workload import STEPS, chain
from weft import AsyncRunner, Run
from weft.log import decode_segments, encode_segment
from weft.stores import MemoryStore
from weft.testing import RecordingStore

INPUTS = 2_000
MOST_MICROSECONDS, MOST_BYTES = 2.0, 120


def measure(folder: Path, *, quick: bool) -> Iterator[Line]:
    """Measure a log in one piece, and in segments of one event, which is how a lone run writes it."""
    del folder
    run = Run(chain(STEPS))
    for i in range(INPUTS // 10 if quick else INPUTS):
        run.run(i)
    log = run.log()
    whole = encode_segment(log)
    pieces = [encode_segment([event]) for event in log]
    definitions = whole.definitions

    def in_one_piece(samples: Samples) -> None:
        with samples:
            body = encode_segment(log).body
            events = decode_segments([body], definitions=definitions, facts={})
        assert len(events) == len(log)

    def in_many_pieces(samples: Samples) -> None:
        with samples:
            bodies = [encode_segment([event]).body for event in log]
            events = decode_segments(bodies, definitions=definitions, facts={})
        assert len(events) == len(log)

    samples = in_turns({"one piece": in_one_piece, "a segment each": in_many_pieces}, 3 if quick else 9)
    for name, target in (("one piece", MOST_MICROSECONDS), ("a segment each", None)):
        seen = Seen.of(samples[name].cpu, 1e6 / len(log))
        beside = (
            f"{(len(whole.body) if name == 'one piece' else sum(len(p.body) for p in pieces)) / len(log):.0f} bytes"
        )
        work = f"encode + decode of {len(log):,} events"
        how, unit = f"CPU, {name}", "µs per event"
        yield Line("encoding", work, how, seen.figure, unit, target, beside=beside, low=seen.low, high=seen.high)
    sizes = asyncio.run(_sizes())
    yield Line("encoding", "log of a step that does nothing", "a segment each", max(sizes), "bytes", MOST_BYTES)


async def _sizes() -> list[int]:
    """Return how many bytes each step of a run of many takes in the store, where each is written by itself."""
    store = RecordingStore(MemoryStore())  # by itself, a store in memory gets several steps at a time (ADR 59)
    async with AsyncRunner(store, executor="inline") as runner:
        handle = await runner.start(chain(100), 0)
        await handle.wait()
        loaded = await store.load(handle.id)
    assert all(segment.count == 1 for segment in loaded.segments[1:])
    return [len(segment.body) for segment in loaded.segments[1:]]
