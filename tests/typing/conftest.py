"""Keeps what is only read by type checkers from being imported."""

from __future__ import annotations

collect_ignore = ["typed.py"]
