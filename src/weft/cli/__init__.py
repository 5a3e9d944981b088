"""
The ``weft`` command: a look at the runs in a file, and a hand for those that were interrupted.

One module per command; ``weft --help`` lists them.  It needs the extra ``cli`` (typer and rich); only the
demonstration, ``weft demo``, does without.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from pathlib import Path

__all__ = ["main"]


def main() -> None:
    """Be the ``weft`` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal cannot show is better escaped than fatal
            stream.reconfigure(errors="backslashreplace")
    try:
        from weft.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"typer", "rich"}:
            raise
        sys.exit(_without_extra(sys.argv[1:]))
    try:
        try:
            app(prog_name="weft")
        finally:
            if sys.stdout is not None:  # closed by who has started it
                sys.stdout.flush()
    except OSError as error:
        if error.errno not in _OF_THE_OUTPUT:
            raise
        sys.exit(_unwritable(error))


_OF_THE_OUTPUT = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""What goes wrong with a pipe, a disk or a terminal; files that are read have errors of their own."""


def _unwritable(error: OSError) -> int:
    """Say that the answer cannot be written, as on a full disk; if nobody reads it, say nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left of it would be tried again at the end
    if not isinstance(error, BrokenPipeError):
        print(f"weft: the answer cannot be written: {error.strerror}; send it elsewhere", file=sys.stderr)
    return 1


def _without_extra(arguments: list[str]) -> int:
    if arguments[:1] != ["demo"]:
        print("the weft command needs typer and rich: pip install '.[cli]' in a checkout", file=sys.stderr)
        return 1
    parser = argparse.ArgumentParser(prog="weft demo", description="Kill a run with -9, and resume it.")
    parser.add_argument("--folder", type=Path, help="keep the files there, to look at them")
    from weft.cli.demo import tell

    return 0 if tell(parser.parse_args(arguments[1:]).folder) else 1
