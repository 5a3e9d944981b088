"""
Events, values and definitions as bytes, and back.

Nothing that is read here can import a module or call a constructor that the application did not name.

    >>> import operator
    >>> from weft import Run, Workflow, step
    >>> run = Workflow("negation", step(operator.neg, name="negate")).run(5)
    >>> Run.from_log(decode(encode(run.log()))).value("negate")
    -5
"""

from weft.log.class_registry import Record, register
from weft.log.codec import (
    Decoder,
    Encoded,
    Encoder,
    Segment,
    check_encodable,
    decode,
    decode_segments,
    encode,
    encode_once,
    encode_segment,
    needs_encoding,
)
from weft.log.definition import definition_of, read_definition, to_dict
from weft.log.definition import read_data as from_dict
from weft.log.event_codec import UnknownEvent
from weft.log.hash_chain import References, chain, references, verify
from weft.log.snapshot import classify

__all__ = [
    "Decoder",
    "Encoded",
    "Encoder",
    "Record",
    "References",
    "Segment",
    "UnknownEvent",
    "chain",
    "check_encodable",
    "classify",
    "decode",
    "decode_segments",
    "definition_of",
    "encode",
    "encode_once",
    "encode_segment",
    "from_dict",
    "needs_encoding",
    "read_definition",
    "references",
    "register",
    "to_dict",
    "verify",
]
