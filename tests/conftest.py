"""Settings shared by all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# A slow machine is not a failing property, and CI must give the same verdict twice.
settings.register_profile("weft", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("weft")
