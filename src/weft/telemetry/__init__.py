"""
Telemetry: handlers for what happens in a runner, and its present load.

    >>> from weft import telemetry
    >>> telemetry.attach("mine", telemetry.EVENTS, lambda event, measurements, metadata: None)
    >>> telemetry.detach("mine")
    True
"""

from weft.telemetry.attempt import AttemptHandle
from weft.telemetry.bus import Handler, bus
from weft.telemetry.catalogue import CATALOGUE, EVENTS
from weft.telemetry.levels import Levels, levels

attach = bus.attach
detach = bus.detach
emit = bus.emit
handlers = bus.handlers

__all__ = [
    "CATALOGUE",
    "EVENTS",
    "AttemptHandle",
    "Handler",
    "Levels",
    "attach",
    "bus",
    "detach",
    "emit",
    "handlers",
    "levels",
]
