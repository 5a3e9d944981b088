"""What every adapter must do, as tests that can be inherited."""

import pytest

pytest.register_assert_rewrite("weft.testing.contracts.executor")
