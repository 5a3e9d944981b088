"""
The two states of a worker: what it does with its runnables, and whether the runner still has its run.

    life      driving ──stop──► stopped ──crash──► crashed
                 └──────────────crash────────────────▲

    presence  here ──leave──► leaving ──end──► left
                ▲────stay────────┘

They are independent of each other (docs/adr/0060-the-life-of-a-worker.md).  Only the methods of a worker change them.
"""

from __future__ import annotations

from typing import Final, Literal

Life = Literal["driving", "stopped", "crashed"]
"""
- driving: starts what may start;
- stopped: starts nothing more;
- crashed: does nothing more, since what it has in memory may be wrong.
"""

Presence = Literal["here", "leaving", "left"]
"""
- here: accepts changes and messages;
- leaving: accepts none; it is being released, or its end is being stored;
- left: has finished, and is not in the runner any more.
"""

LIFE: Final[dict[Life, dict[Literal["stop", "crash"], Life]]] = {
    "driving": {"stop": "stopped", "crash": "crashed"},
    "stopped": {"stop": "stopped", "crash": "crashed"},
    "crashed": {"stop": "crashed", "crash": "crashed"},
}
"""By life and what happens: the life that follows."""

PRESENCE: Final[dict[Presence, dict[Literal["leave", "stay", "end"], Presence]]] = {
    "here": {"leave": "leaving", "end": "left"},
    "leaving": {"leave": "leaving", "stay": "here", "end": "left"},
    "left": {"leave": "left"},
}
"""By presence and what happens: the presence that follows; anything else is a bug."""
