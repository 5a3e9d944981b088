"""Lets the modules of this folder import each other and those of its neighbours, whichever way pytest was started."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "properties"), str(HERE.parent / "orderly")]
