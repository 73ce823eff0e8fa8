"""A contract at an address: read-only calls, and transactions built but not sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millpond.chain import artefacts
from millpond.chain.abi import ContractAbi
from millpond.chain.errors import AbiError, RpcResponseError
from millpond.chain.eth import BlockTag, Eth
from millpond.chain.reverts import EmptyRevertError
from millpond.protocol.errors import ChainError
from millpond.protocol.ids import Address


@dataclass(frozen=True, slots=True)
class Call:
    """What a transaction will do. `label` is `Contract.function`, the operation's name in tables; value in wei."""

    to: Address
    data: bytes
    label: str = ""
    value: int = 0


class Contract:
    """Any contract by its interface. The classes of `bindings` are this with one typed method per function."""

    def __init__(self, eth: Eth, address: Address, abi: ContractAbi) -> None:
        self.eth = eth
        self.address = address
        self.abi = abi

    async def read(self, name: str, *args: Any, block: BlockTag = "latest", sender: Address | None = None) -> Any:
        """Result of a read-only call. Raises `AbiError`, `ContractRevertError` kinds (`EmptyRevertError`: nothing there), `RpcResponseError`
        and the other errors of `Rpc`."""
        data = self.abi.encode_call(name, *args)
        answer = await self.eth.call(self.address, data, sender=sender, block=block, context=f"{self.abi.name}.{name}")
        try:
            return self.abi.decode_result(name, answer)
        except AbiError as error:
            raise self._no_result(name, answer) from error

    def _no_result(self, name: str, answer: bytes) -> ChainError:
        where, call = self.address, f"{self.abi.name}.{name}"
        if not answer:
            return EmptyRevertError(f"{call}: there is no contract at {where}", address=where)
        return RpcResponseError(f"{call}: {where} answers with no such result", method="eth_call", address=where)

    def build(self, name: str, *args: Any, value: int = 0) -> Call:
        """The transaction that calls `name`. Raises `AbiError`."""
        return Call(self.address, self.abi.encode_call(name, *args), f"{self.abi.name}.{name}", value)


def contract(eth: Eth, name: str, address: Address) -> Contract:
    """The packaged contract `name` at `address`, untyped; raises `ArtefactMissingError`."""
    return Contract(eth, address, artefacts.load(name).abi)
