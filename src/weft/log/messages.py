"""
Messages for runs as bytes, and back.

A message is the event that its sender wants to happen, without a position.  So messages have no separate format.  The
process that drives the run records what came of it.

    >>> from weft.core.events import RunCancelled
    >>> decode_message(encode_message(RunCancelled(0, "too late", "Ada")))
    RunCancelled(seq=0, reason='too late', by='Ada', undo=False, stopped=())
"""

from __future__ import annotations

from weft.core.events import AnyEvent
from weft.core.workflow import Workflow
from weft.errors import CorruptLog
from weft.log.codec import decode, encode


def encode_message(event: AnyEvent) -> bytes:
    """
    Return *event*, which has no position, as the body of a message.

    Raises:
        UnencodableValue: its value is not data; the error says where.
    """
    return encode([event])


def decode_message(body: bytes, workflow: Workflow | None = None) -> AnyEvent:
    """
    Return the event in the *body* of a message.

    Args:
        workflow: the definition of the run, whose functions mention the classes that values may be of.

    Raises:
        CorruptLog: these bytes are not a message, or one of a newer version.
    """
    events = decode(body, workflow=workflow, mentions=workflow)
    if len(events) != 1:
        raise CorruptLog(f"a message with {len(events)} events; a message is one event")
    return events[0]
