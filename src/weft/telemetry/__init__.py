"""
Telemetry: handlers for what happens in a runner.

    >>> from weft import telemetry
    >>> telemetry.attach("mine", telemetry.EVENTS, lambda event, measurements, metadata: None)
    >>> telemetry.detach("mine")
    True
"""

from weft.telemetry.bus import Handler, bus
from weft.telemetry.catalogue import CATALOGUE, EVENTS

attach = bus.attach
detach = bus.detach
emit = bus.emit
handlers = bus.handlers

__all__ = ["CATALOGUE", "EVENTS", "Handler", "attach", "bus", "detach", "emit", "handlers"]
