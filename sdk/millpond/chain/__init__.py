"""The chain: artefacts, typed bindings, transactions with a durable outbox, events through reorganisations, typed reverts.

Names load on first use, so that importing the package loads no client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millpond.chain.address_book import AddressBook, DeploymentSettings, verify_book
    from millpond.chain.artefacts import Artefact
    from millpond.chain.calls import Call, Contract, contract
    from millpond.chain.cursor import ChainEvent, Cursor
    from millpond.chain.deployment import CoreContracts
    from millpond.chain.devnet import Devnet, DevnetConfig
    from millpond.chain.enums import CloseReason, LeaseStatus
    from millpond.chain.errors import (
        ChainRollbackError,
        DevelopmentKeyError,
        OutOfFundsError,
        PortTakenError,
        RpcDisagreementError,
        RpcQuorumError,
        RpcResponseError,
        RpcUnreachableError,
        TransactionTimeoutError,
        WrongChainError,
    )
    from millpond.chain.eth import Eth, Header, TxReceipt
    from millpond.chain.fees import FeePolicy
    from millpond.chain.follower import EventBatch, Final, Follower, FollowerConfig, Seen, Undone
    from millpond.chain.keys import Wallet, development_wallet, load_key, new_wallet, save_wallet
    from millpond.chain.outbox import MemoryOutbox, OutboxRow, OutboxStore, SqliteOutbox, TxState
    from millpond.chain.reverts import ContractRevertError
    from millpond.chain.rpc import Rpc
    from millpond.chain.transactor import Transactor, TransactorConfig, TxHandle

_HOMES = {
    "address_book": ("AddressBook", "DeploymentSettings", "verify_book"),
    "artefacts": ("Artefact",),
    "calls": ("Call", "Contract", "contract"),
    "cursor": ("ChainEvent", "Cursor"),
    "deployment": ("CoreContracts",),
    "devnet": ("Devnet", "DevnetConfig"),
    "enums": ("CloseReason", "LeaseStatus"),
    "errors": (
        "ChainRollbackError",
        "DevelopmentKeyError",
        "OutOfFundsError",
        "PortTakenError",
        "RpcDisagreementError",
        "RpcQuorumError",
        "RpcResponseError",
        "RpcUnreachableError",
        "TransactionTimeoutError",
        "WrongChainError",
    ),
    "eth": ("Eth", "Header", "TxReceipt"),
    "fees": ("FeePolicy",),
    "follower": ("EventBatch", "Final", "Follower", "FollowerConfig", "Seen", "Undone"),
    "keys": ("Wallet", "development_wallet", "load_key", "new_wallet", "save_wallet"),
    "outbox": ("MemoryOutbox", "OutboxRow", "OutboxStore", "SqliteOutbox", "TxState"),
    "reverts": ("ContractRevertError",),
    "rpc": ("Rpc",),
    "transactor": ("Transactor", "TransactorConfig", "TxHandle"),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AddressBook",
    "Artefact",
    "Call",
    "ChainEvent",
    "ChainRollbackError",
    "CloseReason",
    "Contract",
    "ContractRevertError",
    "CoreContracts",
    "Cursor",
    "DeploymentSettings",
    "DevelopmentKeyError",
    "Devnet",
    "DevnetConfig",
    "Eth",
    "EventBatch",
    "FeePolicy",
    "Final",
    "Follower",
    "FollowerConfig",
    "Header",
    "LeaseStatus",
    "MemoryOutbox",
    "OutOfFundsError",
    "OutboxRow",
    "OutboxStore",
    "PortTakenError",
    "Rpc",
    "RpcDisagreementError",
    "RpcQuorumError",
    "RpcResponseError",
    "RpcUnreachableError",
    "Seen",
    "SqliteOutbox",
    "TransactionTimeoutError",
    "Transactor",
    "TransactorConfig",
    "TxHandle",
    "TxReceipt",
    "TxState",
    "Undone",
    "Wallet",
    "WrongChainError",
    "contract",
    "development_wallet",
    "load_key",
    "new_wallet",
    "save_wallet",
    "verify_book",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"millpond.chain.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
