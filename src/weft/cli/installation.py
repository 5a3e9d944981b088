"""The parts of this installation, and what is wrong with them."""

from __future__ import annotations

import sqlite3
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from weft.ports.checkup import Finding

EXTRAS = {
    "msgspec": "weft",
    "typer": "weft[cli]",
    "rich": "weft[cli]",
    "asyncpg": "weft[postgres]",
    "starlette": "weft[ui]",
    "uvicorn": "weft[ui]",
    "jinja2": "weft[ui]",
    "opentelemetry-api": "weft[otel]",
    "prometheus-client": "weft[prometheus]",
    "cryptography": "weft[crypto]",
}
"""By distribution: what installs it."""
_MODULES = {"opentelemetry-api": "opentelemetry", "prometheus-client": "prometheus_client"}
_SQLITE = (3, 37)
"""The oldest version that the store is tested with."""


def installation() -> tuple[dict[str, str], list[Finding]]:
    """Return the version of each part, empty if it is not installed, and what is wrong."""
    parts = {"weft": version("weft"), "Python": sys.version.split()[0], "SQLite": sqlite3.sqlite_version}
    findings: list[Finding] = []
    if sqlite3.sqlite_version_info < _SQLITE:
        wanted = ".".join(map(str, _SQLITE))
        findings.append(
            Finding(
                where="SQLite",
                what=f"it is {sqlite3.sqlite_version}",
                next=f"use a Python with SQLite {wanted} or newer",
                certainty="likely",
            )
        )
    for name, extra in EXTRAS.items():
        try:
            parts[name] = version(name)
        except PackageNotFoundError:
            parts[name] = ""
            continue
        try:
            import_module(_MODULES.get(name, name))
        except Exception as error:  # noqa: BLE001 - a package of others may fail in any way
            findings.append(
                Finding(
                    where=name,
                    what=f"it is installed and cannot be imported: {error}",
                    next=f"pip install --force-reinstall {name!r}, which {extra} needs",
                )
            )
    return parts, findings
