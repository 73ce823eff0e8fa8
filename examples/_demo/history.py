"""Reads a development chain back from its first block: events, gas of every transaction, balances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millpond.chain import artefacts
from millpond.chain.abi import decode_event
from millpond.chain.address_book import CREATE2_DEPLOYER, AddressBook
from millpond.chain.bindings import Controller, Escrow
from millpond.chain.eth import Eth, Log, TxReceipt
from millpond.chain.rpc import Rpc
from millpond.protocol.hashing import to_checksum_address
from millpond.protocol.ids import Address


@dataclass(frozen=True, slots=True)
class Event:
    """A contract's event; `args` by the names of the interface."""

    contract: str
    name: str
    args: Mapping[str, Any]
    block: int


@dataclass(frozen=True, slots=True)
class Operation:
    """A transaction by what it called, `Contract.function`."""

    name: str
    gas: int
    is_ok: bool


@dataclass(frozen=True, slots=True)
class Balances:
    """What Escrow owes now, token base units; `free` of the renter, `payouts` of all payees together."""

    free: int
    payouts: int
    treasury: int
    burn: int


@dataclass(frozen=True, slots=True)
class History:
    """Everything of the chain up to block `last`."""

    events: tuple[Event, ...]
    operations: tuple[Operation, ...]
    balances: Balances
    last: int

    def named(self, contract: str, name: str) -> list[Mapping[str, Any]]:
        """Arguments of all events of that name, in chain order."""
        return [event.args for event in self.events if (event.contract, event.name) == (contract, name)]


async def read_history(rpc_url: str, book: AddressBook, pool: Address, renter: Address) -> History:
    """Reads all blocks. Raises the errors of `Rpc`."""
    async with Rpc(rpc_url, chain_id=book.chain_id) as rpc:
        eth = Eth(rpc)
        last = await eth.block_number()
        names = contract_names(book, pool)
        logs = await eth.logs(0, last, list(names))
        events = tuple(event for log in logs if (event := read_event(log, names)) is not None)
        operations = await _operations(eth, last, names)
        return History(events, operations, await _balances(eth, book, pool, renter, events), last)


def contract_names(book: AddressBook, pool: Address) -> dict[Address, str]:
    """Which contract is at which address; the pool is a clone of Controller."""
    return {**{where: name for name, where in book.contracts.items()}, pool: "Controller"}


def read_event(log: Log, names: Mapping[Address, str]) -> Event | None:
    """None for an event that the packaged interface does not know."""
    contract = names[log.address]
    signature = artefacts.load(contract).abi.events.get(log.topics[0]) if log.topics else None
    if signature is None:
        return None
    return Event(contract, signature.name, decode_event(signature, log.topics, log.data), log.block_number)


def operation_name(to: Address | None, data: bytes, names: Mapping[Address, str]) -> str:
    """`Contract.function` by address and selector; `deploy Contract` for a deployment."""
    if to is None or to == CREATE2_DEPLOYER:
        code = data if to is None else data[32:]
        found = [name for name in artefacts.names() if code.startswith(artefacts.load(name).bytecode)]
        return f"deploy {found[0]}" if found else "deploy"
    contract = names.get(to)
    if contract is None:
        return "transfer" if not data else f"unknown 0x{data[:4].hex()}"
    functions = artefacts.load(contract).abi.functions.values()
    known = {item.selector: item.name for item in functions}
    return f"{contract}.{known.get(data[:4], '0x' + data[:4].hex())}"


async def _operations(eth: Eth, last: int, names: Mapping[Address, str]) -> tuple[Operation, ...]:
    blocks = await eth.rpc.batch([("eth_getBlockByNumber", (hex(number), True)) for number in range(last + 1)])
    sent = [item for block in blocks for item in block["transactions"]]
    receipts = await eth.receipts([item["hash"] for item in sent])
    return tuple(_operation(item, receipt, names) for item, receipt in zip(sent, receipts, strict=True) if receipt)


def _operation(item: Mapping[str, Any], receipt: TxReceipt, names: Mapping[Address, str]) -> Operation:
    to = Address(to_checksum_address(item["to"])) if item.get("to") else None
    data = bytes.fromhex((item.get("input") or item.get("data") or "0x")[2:])
    return Operation(operation_name(to, data, names), receipt.gas_used, receipt.is_ok)


async def _balances(eth: Eth, book: AddressBook, pool: Address, renter: Address, events: tuple[Event, ...]) -> Balances:
    """What was withdrawn already counts, too: it was owed."""
    escrow, params = Escrow(eth, book.address("Escrow")), await Controller(eth, pool).params()
    payees = {event.args["terms"]["payee"] for event in events if event.name == "LeaseFunded"}
    withdrawn: dict[Address, int] = {}
    for event in events:
        if event.name == "OwedWithdrawn":
            account = event.args["account"]
            withdrawn[account] = withdrawn.get(account, 0) + event.args["amount"]
    flushed = sum(event.args["amount"] for event in events if event.name == "BurnFlushed")

    async def ever(account: Address) -> int:
        return await escrow.owed(params.token, account) + withdrawn.get(account, 0)

    fees, burnt = await escrow.takings(pool, params.token)
    return Balances(
        free=await escrow.free(params.token, renter),
        payouts=sum([await ever(payee) for payee in payees]),
        treasury=await ever(params.treasury) + fees,
        burn=await escrow.burn_pending(params.token) + flushed + burnt,
    )
