"""
The first process of the demonstration, which is killed: ``python -m weft.cli.demo.child FOLDER``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from weft.cli.demo.orders import ORDER, RUN, orders
from weft.cli.demo.world import World
from weft.runner import Runner
from weft.stores import SQLiteStore


def main(folder: str) -> None:
    """Start the order, and wait for its end."""
    with Runner(SQLiteStore(World(Path(folder)).database), context={"folder": folder}) as runner:
        runner.start(orders, ORDER, id=RUN).wait()


if __name__ == "__main__":
    main(sys.argv[1])
