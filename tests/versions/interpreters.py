"""
The interpreters of this machine, by the version of Python they are: those on the PATH, and those of pyenv.

A name proves nothing: a shim of pyenv stands on the PATH also for versions that are not switched on.  So each is asked,
and of several with the same version the newest counts.
"""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

Version = tuple[int, int]

_CLASSIFIER = re.compile(r"Programming Language :: Python :: (\d+)\.(\d+)")
_ASK = "import sys; print(*sys.version_info[:3])"


class Interpreter(NamedTuple):
    """A Python that can be run."""

    release: tuple[int, int, int]
    path: Path

    @property
    def name(self) -> str:
        """Its release, as people write it."""
        return ".".join(map(str, self.release))


def supported(project: Path) -> list[Version]:
    """Return the versions that the file *project* says the library is for, oldest first."""
    classifiers = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["classifiers"]
    found = [_CLASSIFIER.fullmatch(line) for line in classifiers]
    return sorted((int(match[1]), int(match[2])) for match in found if match)


def find(versions: Iterable[Version], environment: Mapping[str, str]) -> dict[Version, Interpreter | None]:
    """Return an interpreter for each of *versions*; None where this machine has none."""
    return {version: max(_answering(version, environment), default=None) for version in versions}


def _answering(version: Version, environment: Mapping[str, str]) -> Iterator[Interpreter]:
    for path in _candidates(version, environment):
        if (found := _asked(path)) is not None and found.release[:2] == version:
            yield found


def _candidates(version: Version, environment: Mapping[str, str]) -> Iterator[Path]:
    name = "python{}.{}".format(*version)
    yield from (Path(folder) / name for folder in environment.get("PATH", "").split(os.pathsep) if folder)
    pyenv = Path(environment.get("PYENV_ROOT") or Path(environment.get("HOME", "")) / ".pyenv")
    yield from pyenv.glob(f"versions/*/bin/{name}")


def _asked(path: Path) -> Interpreter | None:
    """Return what *path* says it is; None if it does not answer."""
    try:
        said = subprocess.run([path, "-c", _ASK], capture_output=True, text=True, timeout=60, check=True).stdout.split()
        major, minor, micro = map(int, said)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return Interpreter((major, minor, micro), path)
