"""
Other libraries, doing the same work as Weft.

Every graph is built before the clock starts and used again for every sample, as
its documentation advises.  Persistence, tracking and tracing are off: what is
measured is the engine in memory.  The switches below are read at import, so they
stand before any of them; recent versions of Hamilton and Burr have no telemetry
left to switch off.
"""

from __future__ import annotations

import os

os.environ.update(
    HAMILTON_TELEMETRY_ENABLED="false",
    HAMILTON_AUTOLOAD_EXTENSIONS="0",  # no data-frame plugins: nothing here needs them
    BURR_TELEMETRY_ENABLED="false",
    LANGSMITH_TRACING="false",
    LANGCHAIN_TRACING_V2="false",
)
