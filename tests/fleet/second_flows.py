"""The workflow ``chain`` of the tests of fleets in another version; workers import this file."""

from __future__ import annotations

from fleet_flows import begin, end, middle

from weft import Workflow, registry, step


@step
def check(x: int) -> int:
    return x


chain = Workflow("chain", begin >> middle >> check >> end)
registry.add(chain)
