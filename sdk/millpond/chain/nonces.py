"""Which transaction used a nonce: the only proof that an intent of ours can no longer be mined under it."""

from __future__ import annotations

from typing import Any

from millpond.chain.errors import RpcResponseError
from millpond.chain.eth import Eth
from millpond.protocol.ids import Address, Bytes32, bytes32


async def transaction_at(eth: Eth, sender: Address, nonce: int, last: int) -> Bytes32 | None:
    """Hash of the sender's transaction with `nonce` in blocks up to `last`; None when there is none yet.

    Bisects over the sender's transaction counts, so the server must know the state of those blocks; raises `RpcResponseError`
    where it does not.
    """
    if last < 0 or await eth.nonce(sender, last) <= nonce:
        return None
    low, high = await _bracket(eth, sender, nonce, last)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if await eth.nonce(sender, middle) > nonce else (middle, high)
    block = await eth.rpc.call("eth_getBlockByNumber", hex(high), True)
    return _hash_in(block, sender, nonce)


async def _bracket(eth: Eth, sender: Address, nonce: int, last: int) -> tuple[int, int]:
    """Blocks around the transaction: not yet in the first (-1 for before the chain), in the second."""
    high, step = last, 1
    while high - step >= 0:
        if await eth.nonce(sender, high - step) <= nonce:
            return high - step, high
        high, step = high - step, 2 * step
    return -1, high


def _hash_in(block: Any, sender: Address, nonce: int) -> Bytes32 | None:
    try:
        for item in block["transactions"]:
            if item["from"].lower() == sender.lower() and int(item["nonce"], 16) == nonce:
                return bytes32(item["hash"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RpcResponseError(f"the RPC sent a malformed block: {error}", method="eth_getBlockByNumber") from error
    return None
