"""Puts the helpers of these tests where they can be imported, here and on the workers of a cluster."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
