"""One pool, one staked provider and one renter on a fresh Anvil, and the gas of each transaction they send."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from millpond.chain import deployment
from millpond.chain.address_book import DeploymentSettings
from millpond.chain.bindings import Controller, MockToken
from millpond.chain.bindings.structs import PoolParams, VoucherClaim
from millpond.chain.calls import Call
from millpond.chain.deployment import CoreContracts
from millpond.chain.eth import Eth
from millpond.chain.keys import development_wallet, wallet_of
from millpond.chain.outbox import MemoryOutbox
from millpond.chain.transactor import Transactor
from millpond.protocol.hashing import keccak256
from millpond.protocol.ids import ZERO_BYTES32, Address, Bytes32, bytes32, device_id, lease_id
from millpond.protocol.signed import Offer, Request, Resize, Voucher
from millpond.protocol.signing import Domain, sign

CHAIN_ID = 31337
POLL_S, MOST_POLLS = 0.01, 1_000
OWNER, PROVIDER, RENTER, NODE, SLASHER, RELAYER, PAYOUT, TREASURY = (development_wallet(i, CHAIN_ID) for i in range(8))
OPERATOR, SESSION = (wallet_of(keccak256(name)) for name in (b"operator", b"session"))
PRICE, DURATION = 1_000, 3_600
STAKE = FUNDS = 10**12
MODEL = bytes32(keccak256(b"model"))


@dataclass
class World:
    """The contracts of one fresh chain. `pool` is set by the runs."""

    eth: Eth
    core: CoreContracts
    token: MockToken
    params: PoolParams
    owner: Transactor
    pool: Controller = field(init=False)
    nonce: int = 0

    async def send(self, sender: Address, call: Call) -> int:
        """Mines `call` alone in a block; returns the gas used. Raises `RuntimeError` when it reverts."""
        sent = {"from": sender, "to": call.to, "data": "0x" + call.data.hex(), "gas": hex(16_000_000)}
        tx_hash = await self.eth.rpc.call("eth_sendTransaction", sent)
        for _ in range(MOST_POLLS):
            receipt = await self.eth.receipt(tx_hash)
            if receipt is not None:
                break
            await asyncio.sleep(POLL_S)
        if receipt is None or not receipt.is_ok:
            raise RuntimeError(f"{call.label} {'reverted' if receipt else 'was not mined'}")
        return receipt.gas_used

    async def now(self) -> int:
        header = await self.eth.header()
        if header is None:
            raise RuntimeError("the chain has no block")
        return header.timestamp

    async def skip(self, seconds: int) -> None:
        await self.eth.rpc.call("evm_increaseTime", seconds)
        await self.eth.rpc.call("evm_mine")

    async def create_pool(self, label: bytes) -> int:
        """Makes a pool and uses it from now on."""
        name = bytes32(label.ljust(32, b"\0"))
        call = self.core.factory.create_pool(name, NODE.address, self.params)
        gas = await self.send(OWNER.address, call)
        self.pool = self.core.pool(await self.core.factory.predict(OWNER.address, name, self.params))
        return gas

    async def fund(self, account: Address, spender: Address, amount: int) -> None:
        await self.send(account, self.token.mint(account, amount))
        await self.send(account, self.token.approve(spender, amount))

    async def provision(self) -> int:
        terms = (self.params.slasher, self.params.thawPeriod)
        return await self.send(PROVIDER.address, self.core.staking.provision(self.pool.address, STAKE // 4, *terms))

    async def pair(self, device: Bytes32) -> tuple[Offer, Request]:
        """A fresh offer and a request that names it."""
        self.nonce += 1
        deadline = await self.now() + 600
        offer = Offer(
            controller=self.pool.address,
            device=device,
            epoch=0,
            mode=1,
            isolation=1,
            share=20,
            memoryMiB=512,
            cpuMilli=1000,
            ramMiB=4000,
            diskMiB=2000,
            bandwidthMbit=0,
            pricePerSecond=PRICE,
            tick=10,
            notice=60,
            determinism=ZERO_BYTES32,
            maxDuration=86_400,
            capPerRenter=0,
            deadline=deadline,
        )
        request = Request(
            renter=RENTER.address,
            controller=self.pool.address,
            token=self.token.address,
            offer=ZERO_BYTES32,
            submitter=NODE.address,
            isolation=1,
            share=20,
            memoryMiB=512,
            cpuMilli=500,
            ramMiB=2000,
            diskMiB=1000,
            maxPricePerSecond=PRICE,
            duration=DURATION,
            depositSeconds=60,
            voucherSigner=SESSION.address,
            verification=0,
            data=ZERO_BYTES32,
            deadline=deadline,
            nonce=self.nonce,
        )
        return offer, request

    async def open_lease(self, device: Bytes32) -> tuple[Bytes32, int]:
        """Id and gas of a lease."""
        offer, request = await self.pair(device)
        here, escrow = Domain(CHAIN_ID, self.pool.address), Domain(CHAIN_ID, self.core.escrow.address)
        signatures = sign(offer, here, OPERATOR.key), sign(request, escrow, RENTER.key)
        gas = await self.send(NODE.address, self.pool.open_lease(offer, signatures[0], request, signatures[1]))
        return lease_id(CHAIN_ID, self.pool.address, offer.struct_hash(), request.struct_hash()), gas

    async def resize(self, lease: Bytes32, share: int, price: int, sequence: int) -> int:
        """Gas of a lease's resize after `sequence` others."""
        resize = Resize(lease, share, 600, price, sequence, await self.now() + 600)
        signature = sign(resize, Domain(CHAIN_ID, self.core.escrow.address), RENTER.key)
        return await self.send(PROVIDER.address, self.pool.resize_lease(resize, signature))

    def claim(self, lease: Bytes32, cumulative: int) -> VoucherClaim:
        signature = sign(Voucher(lease, cumulative), Domain(CHAIN_ID, self.core.escrow.address), SESSION.key)
        return VoucherClaim(self.pool.address, lease, cumulative, signature)

    async def collect(self, lease: Bytes32, cumulative: int) -> int:
        claim = self.claim(lease, cumulative)
        call = self.core.escrow.collect(claim.controller, lease, cumulative, claim.signature)
        return await self.send(RELAYER.address, call)

    def device(self, name: bytes) -> tuple[Bytes32, Bytes32]:
        """Hash of a device's UUID, and the device's id."""
        uuid_hash = bytes32(keccak256(name))
        return uuid_hash, device_id(PROVIDER.address, uuid_hash)


async def make_world(eth: Eth) -> World:
    """Deploys everything and makes a first pool, so that nothing of a chain's first use is measured by accident."""
    owner = Transactor(eth, OWNER, MemoryOutbox())
    await owner.start()
    book = await deployment.apply(owner, DeploymentSettings(OWNER.address))
    book = await deployment.apply_development(owner, book)
    await owner.stop()
    token = MockToken(eth, book.address("MockToken"))
    params = deployment.default_pool_params(token.address, SLASHER.address, TREASURY.address)
    world = World(eth, CoreContracts(eth, book), token, replace(params, depositSeconds=60), owner)
    await world.create_pool(b"first")
    await world.fund(PROVIDER.address, world.core.staking.address, 2 * STAKE)
    await world.fund(RENTER.address, world.core.escrow.address, 2 * FUNDS)
    await world.send(RENTER.address, world.core.escrow.deposit(token.address, FUNDS))
    await world.send(PROVIDER.address, world.core.staking.deposit(token.address, STAKE // 2))
    return world
