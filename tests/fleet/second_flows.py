"""
The workflow ``chain`` of the tests of fleets in another version; workers import this file.

It is not added to the registry, which the tests share: a worker adds what stands at the top of a module it imports.
"""

from __future__ import annotations

from fleet_flows import begin, end, middle

from weft import Workflow, step


@step
def check(x: int) -> int:
    return x


chain = Workflow("chain", begin >> middle >> check >> end)
