"""
Arrays and scalars of NumPy as plain data, and back.

NumPy is optional.  It is imported only to read such a value; a process that has made one has imported it already.

    >>> is_numpy(float)
    False
"""

from __future__ import annotations

import importlib
import math
import re
import sys
from collections.abc import Mapping
from typing import Any, Final, cast

ARRAY: Final = "numpy.ndarray"
SCALAR: Final = "numpy.generic"
"""The name of all scalars: their ``dtype`` says which class it is."""

_KINDS: Final = "biufcSUmM"
"""The letters of types whose bytes are the value: numbers, fixed texts and bytes, times."""

_DTYPE: Final = re.compile(r"[<>|][biufcSUmM]\d{1,9}(?:\[[0-9A-Za-z/]{1,20}\])?")


class NotPlain(Exception):
    """The bytes of an array are not all that it holds; the text says why."""


def is_numpy(kind: type) -> bool:
    """Return whether *kind* is the class of arrays, or one of the classes of scalars, and not a class made of one."""
    numpy = sys.modules.get("numpy")
    if numpy is None or kind.__module__ != "numpy":
        return False
    return kind is getattr(numpy, "ndarray", None) or getattr(numpy, "generic", None) in kind.__mro__


def apart(value: Any) -> dict[str, Any]:
    """
    Return an array or a scalar as plain fields.

    Raises:
        NotPlain: its elements are objects, records or of a size that depends on the machine.
    """
    dtype = value.dtype
    if dtype.kind not in _KINDS or dtype.char in "gG":
        raise NotPlain(f"{type(value).__name__} of dtype {dtype}; convert it with .tolist() or .astype(...): it")
    fields = {"dtype": str(dtype.str), "data": value.tobytes()[: value.nbytes]}
    return fields if is_scalar(value.__class__) else fields | {"shape": list(value.shape)}


def is_scalar(kind: type) -> bool:
    """Return whether *kind*, a class of NumPy, is not that of arrays."""
    return kind.__name__ != "ndarray"


def together(fields: Mapping[str, Any]) -> Any:
    """
    Return the array or scalar that has these *fields*, which owns its memory.

    Raises:
        ImportError: NumPy is not installed.
        ValueError: the fields do not describe one.
    """
    text, data, shape = fields.get("dtype"), fields.get("data"), fields.get("shape", [])
    if not (isinstance(text, str) and isinstance(data, bytes) and _DTYPE.fullmatch(text) and _is_shape(shape)):
        raise ValueError(f"an array with the fields {', '.join(fields)} that do not fit")
    numpy: Any = importlib.import_module("numpy")
    dtype = numpy.dtype(text)
    if len(data) != dtype.itemsize * math.prod(shape):
        raise ValueError(f"an array of {text} with {len(data)} bytes for the shape {shape}")
    if "shape" in fields:
        return numpy.ndarray(tuple(shape), dtype, data).copy()
    if dtype.kind == "S":  # an array would take the zeros at its end for padding
        return dtype.type(data)
    if dtype.kind == "U":
        return dtype.type(data.decode("utf-32-be" if text[0] == ">" else "utf-32-le", "surrogatepass"))
    return numpy.ndarray((), dtype, data)[()]


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list) and all(type(size) is int and size >= 0 for size in cast("Any", shape))
