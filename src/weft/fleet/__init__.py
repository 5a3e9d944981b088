"""
Many workers on one PostgreSQL or on several: clients start runs, and workers claim and drive them.

See docs/how-to/fleet.md.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.fleet.blocking import Client
    from weft.fleet.client import AsyncClient
    from weft.fleet.sharded_worker import ShardedWorker
    from weft.fleet.worker import FleetWorker
else:
    from weft.lazy_names import lazy_names

    __getattr__ = lazy_names(
        __name__,
        {
            "weft.fleet.blocking": ("Client",),
            "weft.fleet.client": ("AsyncClient",),
            "weft.fleet.sharded_worker": ("ShardedWorker",),
            "weft.fleet.worker": ("FleetWorker",),
        },
        submodules=("registry",),
    )

__all__ = ["AsyncClient", "Client", "FleetWorker", "ShardedWorker"]


def __dir__() -> list[str]:
    return __all__
