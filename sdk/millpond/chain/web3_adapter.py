"""For programs that use web3: its contract objects over the packaged interfaces, and typed reverts. web3 loads here only.

The package itself talks JSON-RPC over httpx: web3 takes 0.7 s to import and 11 ms of CPU per transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millpond.chain import artefacts
from millpond.chain.reverts import ContractRevertError, decode_revert
from millpond.protocol.ids import Address

if TYPE_CHECKING:
    from web3 import AsyncWeb3
    from web3.contract import AsyncContract

DEFAULT_TIMEOUT_S = 10.0


def connect(url: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> AsyncWeb3[Any]:
    """web3 on the RPC at `url`."""
    from web3 import AsyncHTTPProvider, AsyncWeb3

    return AsyncWeb3(AsyncHTTPProvider(url, request_kwargs={"timeout": timeout_s}))


def contract(web3: AsyncWeb3[Any], name: str, address: Address) -> AsyncContract:
    """web3's object of the packaged contract `name`; raises `ArtefactMissingError`."""
    found: Any = web3.eth.contract(
        address=web3.to_checksum_address(address), abi=list(artefacts.load(name).abi.entries)
    )
    return found  # type: ignore[no-any-return]


def typed_revert(error: Exception, context: str = "") -> ContractRevertError:
    """The typed error behind web3's `ContractLogicError` or `ContractCustomError`, which show custom errors as raw hexadecimal."""
    data = getattr(error, "data", None)
    if isinstance(data, dict):
        data = data.get("data")
    raw = bytes.fromhex(data[2:]) if isinstance(data, str) and data.startswith("0x") else b""
    return decode_revert(raw, context)
