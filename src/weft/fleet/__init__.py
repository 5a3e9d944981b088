"""
Many workers on one PostgreSQL or on several: clients start runs, and workers claim and drive them.

See docs/how-to/fleet.md.
"""

from weft.fleet.blocking import Client
from weft.fleet.client import AsyncClient
from weft.fleet.sharded_worker import ShardedWorker
from weft.fleet.worker import FleetWorker

__all__ = ["AsyncClient", "Client", "FleetWorker", "ShardedWorker"]
