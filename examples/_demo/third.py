"""Tries to open one lease too many, past the node: the chain's slice ledger refuses it."""

from __future__ import annotations

import secrets
import time

from millpond.chain.bindings import Controller
from millpond.chain.eth import Eth
from millpond.chain.outbox import MemoryOutbox
from millpond.chain.reverts import ContractRevertError
from millpond.chain.rpc import Rpc
from millpond.chain.transactor import Transactor
from millpond.dev.accounts import Account, wallet
from millpond.protocol.ids import ZERO_ADDRESS, ZERO_BYTES32, Bytes32
from millpond.protocol.signed import Request
from millpond.protocol.signing import Domain, sign
from millpond.protocol.views import OfferView, PoolView

SUBMITTER = 5
"""Index of a development account that is nobody else's; it pays the gas of the refused transaction."""
GAS = 1_000_000
WAIT_S = 30.0


def biggest(offers: list[OfferView], device: Bytes32) -> OfferView:
    """The offer of `device` with the largest share."""
    return max((view for view in offers if view.device.device == device), key=lambda view: view.signed.offer.share)


async def try_third(rpc_url: str, pool: PoolView, view: OfferView, duration: int) -> ContractRevertError | None:
    """Sends a well signed `openLease` of `view` with gas enough to be mined, and returns how the chain refused it."""
    offer, renter = view.signed.offer, wallet(Account.RENTER)
    request = Request(
        renter=renter.address,
        controller=pool.controller,
        token=pool.token,
        offer=view.hash,
        submitter=ZERO_ADDRESS,
        isolation=0,
        share=offer.share,
        memoryMiB=offer.memoryMiB,
        cpuMilli=0,
        ramMiB=0,
        diskMiB=0,
        maxPricePerSecond=offer.pricePerSecond,
        duration=duration,
        depositSeconds=pool.deposit_seconds,
        voucherSigner=renter.address,
        verification=0,
        data=ZERO_BYTES32,
        deadline=int(time.time()) + 600,
        nonce=secrets.randbits(256),
    )
    signature = sign(request, Domain(pool.chain_id, pool.escrow), renter.key)
    async with Rpc(rpc_url, chain_id=pool.chain_id) as rpc:
        eth = Eth(rpc)
        call = Controller(eth, pool.controller).open_lease(offer, view.signed.signature, request, signature)
        async with Transactor(eth, wallet(SUBMITTER), MemoryOutbox()) as transactor:
            handle = await transactor.send_call("third slice", call, gas=GAS)
            try:
                await handle.mined(WAIT_S)
            except ContractRevertError as error:
                return error
    return None
