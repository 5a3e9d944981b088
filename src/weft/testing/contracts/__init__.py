"""What every adapter must do, as tests that can be inherited."""

import sys

# Not imported, which would cost every worker process that runs a step of a contract.
if "pytest" in sys.modules:
    sys.modules["pytest"].register_assert_rewrite("weft.testing.contracts.executor")
