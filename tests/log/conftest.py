"""Lets these tests import their own samples, and the random workflows of the properties."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent

sys.path[:0] = [str(HERE), str(HERE.parent / "properties")]
