"""
The identity of this process, and a check whether another process of this machine is dead.

Four things identify a process: the boot of its machine, its PID namespace, its PID, and when it began.  If one of them
is not known, the process is taken to be alive.
"""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")


class Process(NamedTuple):
    """A process, for other processes of the same machine."""

    machine: str
    """The machine and the namespace; empty if that is not known."""
    pid: int
    born: int
    """When it began, in ticks since the machine was started."""
    name: str
    """In words, for messages."""


def this_process() -> Process:
    """Return this process."""
    pid = os.getpid()
    return Process(this_machine(), pid, _own_birth(pid) or 0, f"process {pid} on {socket.gethostname()}")


def is_dead(pid: int, born: int) -> bool:
    """Whether the process of this machine that has had *pid*, and was *born* then, has ended for certain."""
    if pid <= 0 or not born:
        return False
    if pid == os.getpid():  # the owner of nearly all runs that this process loads
        own = _own_birth(pid)
        return own is not None and own != born
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is there, and belongs to another user
        return False
    now = _born(pid)
    return now is not None and now != born


@cache
def this_machine() -> str:
    """Return the boot of this machine and the PID namespace of this process; empty if that is not known."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


@cache
def _own_birth(pid: int) -> int | None:
    """Return when this process began, which has this *pid*."""
    return _born(pid)


os.register_at_fork(after_in_child=_own_birth.cache_clear)


def _born(pid: int) -> int | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    return int(fields[19]) if len(fields) > 19 and fields[0] not in {"Z", "X"} else 0
