"""
The ``weft`` command: starts workflows, shows their runs, and acts on them.

One module per command; ``weft --help`` lists them.  It needs the extra ``cli`` (typer and rich); only the
demonstration, ``weft demo``, does without.

This module imports little, so that a worker that gets SIGTERM while it imports the rest ends with exit code 0.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the ``weft`` command."""
    if sys.argv[1:2] == ["worker"]:  # a worker that is stopped before it has begun has nothing to release
        signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # escape characters that the terminal cannot show
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
            if sys.stdout is not None:  # closed by the program that started it
                sys.stdout.flush()
    except OSError as error:
        if error.errno not in _OF_THE_OUTPUT:
            raise
        sys.exit(_unwritable(error))


_OF_THE_OUTPUT = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""The errors of a pipe, a disk or a terminal; files that are read have other errors."""


def _unwritable(error: OSError) -> int:
    """Report that the answer cannot be written, for instance on a full disk; say nothing if the pipe was closed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the rest of it would be written again at exit
    if not isinstance(error, BrokenPipeError):
        print(f"weft: the answer cannot be written: {error.strerror}; send it elsewhere", file=sys.stderr)
    return 1


def _without_extra(arguments: list[str]) -> int:
    if arguments[:1] != ["demo"]:
        print("the weft command needs typer and rich: pip install '.[cli]' in a checkout", file=sys.stderr)
        return 1
    import argparse
    from pathlib import Path

    parser = argparse.ArgumentParser(prog="weft demo", description="Kill a run with -9, and resume it.")
    parser.add_argument("--folder", type=Path, help="keep the files there, to look at them")
    from weft.cli.demo import tell

    return 0 if tell(parser.parse_args(arguments[1:]).folder) else 1
