"""Millpond: rent fractions of GPUs from on-chain pools and run Python on them.

import millpond

app = millpond.App()

@app.task
def square(x: int) -> int:
    return x * x

with millpond.Client() as client, client.rent(millpond.Vgpu(share=500)):
    print(list(square.map(range(10))))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millpond._asyncclient import AsyncClient
    from millpond._asyncleases import AsyncLease, AsyncLeases
    from millpond._executor import Executor
    from millpond._handles import AsyncHandle, Handle
    from millpond._leaseset import Lease, LeaseSet
    from millpond._settlement import Settlement
    from millpond.client import Client
    from millpond.protocol.errors import MillpondError
    from millpond.settings import Network
    from millpond.task import App, Task
    from millpond.vgpu import Vgpu

__version__ = "0.1.0"

__all__ = [
    "App",
    "AsyncClient",
    "AsyncHandle",
    "AsyncLease",
    "AsyncLeases",
    "Client",
    "Executor",
    "Handle",
    "Lease",
    "LeaseSet",
    "MillpondError",
    "Network",
    "Settlement",
    "Task",
    "Vgpu",
]

_HOMES = {
    "App": "task",
    "AsyncClient": "_asyncclient",
    "AsyncHandle": "_handles",
    "AsyncLease": "_asyncleases",
    "AsyncLeases": "_asyncleases",
    "Client": "client",
    "Executor": "_executor",
    "Handle": "_handles",
    "Lease": "_leaseset",
    "LeaseSet": "_leaseset",
    "MillpondError": "protocol.errors",
    "Network": "settings",
    "Settlement": "_settlement",
    "Task": "task",
    "Vgpu": "vgpu",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'millpond' has no attribute {name!r}")
    return getattr(import_module(f"millpond.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
