"""A settled pool on a real Anvil: one device, two paid leases, three posted receipts, one refused transaction."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))

from millpond.chain import devnet
from millpond.chain.address_book import AddressBook
from millpond.chain.calls import Call
from millpond.chain.deployment import CoreContracts
from millpond.chain.errors import DevnetError
from millpond.chain.eth import Eth
from millpond.chain.outbox import MemoryOutbox
from millpond.chain.reverts import ContractRevertError
from millpond.chain.rpc import Rpc
from millpond.chain.transactor import Transactor, TransactorConfig
from millpond.dev.accounts import Account, provider_accounts, wallet
from millpond.dev.bootstrap import bootstrap
from millpond.protocol import merkle
from millpond.protocol.hashing import keccak256, sha256
from millpond.protocol.ids import ZERO_ADDRESS, ZERO_BYTES32, Address, Bytes32, bytes32, device_id, lease_id, task_id
from millpond.protocol.messages import SignedReceipt
from millpond.protocol.receipts import receipt_leaf
from millpond.protocol.signed import Offer, Receipt, Request, Voucher
from millpond.protocol.signing import Domain, sign
from millpond.protocol.views import ReceiptBundle

CHAIN_ID, PRICE, DURATION, DEPOSIT_S, SERVED_S = 31337, 1000, 3600, 60, 100
UUID_HASH = bytes32(keccak256(b"device"))
FAST = TransactorConfig(poll_s=0.02, idle_poll_s=0.1, resend_after_s=0.1)
OWNER, OPERATOR, PAYOUT = (wallet(index) for index in provider_accounts(0))
RENTER, NODE, SESSION = wallet(Account.RENTER), wallet(Account.NODE), wallet(6)


@dataclass
class Pool:
    """What the tests look at. `url` is the chain's RPC."""

    eth: Eth
    url: str
    book: AddressBook
    controller: Address
    senders: dict[Address, Transactor]
    leases: list[Bytes32] = field(default_factory=list)
    bundle: ReceiptBundle | None = None

    @property
    def core(self) -> CoreContracts:
        return CoreContracts(self.eth, self.book)

    @property
    def token(self) -> Address:
        return self.book.address("MockToken")

    async def do(self, sender: Address, call: Call, gas: int | None = None) -> None:
        transactor = self.senders[sender]
        handle = await transactor.send_call(f"{call.label} {len(transactor.rows())}", call, gas=gas)
        await handle.mined(10)

    async def now(self) -> int:
        header = await self.eth.header()
        assert header is not None
        return header.timestamp


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """Built once: tests only read it."""
    try:
        binary = devnet.find_anvil()
    except DevnetError as error:
        pytest.skip(f"{error} ({error.remedy})")
    config = devnet.DevnetConfig(port=0, block_time_s=0, binary=binary)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(devnet.running(config)) as chain:
        yield portal.call(build, chain.url, tmp_path_factory.mktemp("pool"))


async def build(url: str, home: Path) -> Pool:
    made = await bootstrap(url, home, 1)
    async with AsyncExitStack() as exits:
        eth = Eth(await exits.enter_async_context(Rpc(url, chain_id=CHAIN_ID)))
        pool = Pool(eth, url, AddressBook.load(made.book), made.controller, {})
        for account in (OWNER, OPERATOR, RENTER, NODE):
            sender = Transactor(eth, account, MemoryOutbox(), FAST)
            pool.senders[account.address] = await exits.enter_async_context(sender)
        await live(pool)
    return pool


async def live(pool: Pool) -> None:
    await enter(pool)
    await fund(pool)
    for share in (500, 300):
        await open_lease(pool, share)
    with pytest.raises(ContractRevertError, match="share full"):
        await open_lease(pool, 300)
    await post(pool)
    await pool.eth.rpc.call("evm_increaseTime", SERVED_S)
    await pool.eth.rpc.call("anvil_mine", "0x1")
    for lease in pool.leases:
        await end_lease(pool, lease)


async def enter(pool: Pool) -> None:
    from millpond.chain.bindings import Controller, MockToken

    core, stake, owner = pool.core, 10 * PRICE * DURATION, OWNER.address
    rules = await Controller(pool.eth, pool.controller).params()
    await pool.do(owner, MockToken(pool.eth, pool.token).approve(core.staking.address, stake))
    await pool.do(owner, core.staking.deposit(pool.token, stake))
    await pool.do(owner, core.staking.provision(pool.controller, stake, rules.slasher, rules.thawPeriod))
    await pool.do(owner, core.devices.register_provider(OPERATOR.address, PAYOUT.address))
    await pool.do(owner, core.devices.register_device(UUID_HASH, 0, 8000, bytes32(keccak256(b"model"))))
    await pool.do(owner, core.devices.join(device_id(owner, UUID_HASH), pool.controller))


async def fund(pool: Pool) -> None:
    """Exactly what the two leases can cost."""
    from millpond.chain.bindings import MockToken

    most = 2 * PRICE * (DURATION + DEPOSIT_S)
    await pool.do(RENTER.address, MockToken(pool.eth, pool.token).approve(pool.core.escrow.address, most))
    await pool.do(RENTER.address, pool.core.escrow.deposit(pool.token, most))


async def open_lease(pool: Pool, share: int) -> None:
    deadline = await pool.now() + 600
    offer = Offer(
        pool.controller, device_id(OWNER.address, UUID_HASH), 0, 0, 0, share, 1000, 0, 0, 0, 0, PRICE, 10, 60,
        ZERO_BYTES32, DURATION, 0, deadline,
    )  # fmt: skip
    request = Request(
        RENTER.address, pool.controller, pool.token, offer.struct_hash(), ZERO_ADDRESS, 0, share, 1000, 0, 0, 0, PRICE,
        DURATION, DEPOSIT_S, SESSION.address, 0, ZERO_BYTES32, deadline, 1 + len(pool.senders[NODE.address].rows()),
    )  # fmt: skip
    offered = sign(offer, Domain(CHAIN_ID, pool.controller), OPERATOR.key)
    asked = sign(request, Domain(CHAIN_ID, pool.core.escrow.address), RENTER.key)
    call = pool.core.pool(pool.controller).open_lease(offer, offered, request, asked)
    await pool.do(NODE.address, call, gas=1_500_000)
    pool.leases.append(lease_id(CHAIN_ID, pool.controller, offer.struct_hash(), request.struct_hash()))


async def end_lease(pool: Pool, lease: Bytes32) -> None:
    controller = pool.core.pool(pool.controller)
    voucher = Voucher(lease, SERVED_S * PRICE)
    signature = sign(voucher, Domain(CHAIN_ID, pool.core.escrow.address), SESSION.key)
    await pool.do(RENTER.address, controller.close_lease(lease))
    await pool.do(OPERATOR.address, controller.collect_final(lease, voucher.cumulative, signature))


async def post(pool: Pool) -> None:
    receipts = [await signed_receipt(pool, index) for index in range(3)]
    leaves = [receipt_leaf(item) for item in receipts]
    root = bytes32(merkle.root(leaves))
    await pool.do(NODE.address, pool.core.attestations.post_receipts(pool.controller, root, 3, ZERO_BYTES32))
    pool.bundle = ReceiptBundle(
        chain_id=CHAIN_ID,
        controller=pool.controller,
        escrow=pool.core.escrow.address,
        devices=pool.core.devices.address,
        attestations=pool.core.attestations.address,
        poster=NODE.address,
        root=root,
        count=3,
        index=0,
        proof=tuple(bytes32(item) for item in merkle.proof(leaves, 0)),
        signed=receipts[0],
    )


async def signed_receipt(pool: Pool, index: int) -> SignedReceipt:
    at, digest = await pool.now(), bytes32(sha256(b"content"))
    receipt = Receipt(
        pool.leases[index % 2], task_id(ZERO_BYTES32, index), 1, device_id(OWNER.address, UUID_HASH), ZERO_BYTES32,
        digest, ZERO_BYTES32, digest, at, at + 1, 0, 0,
    )  # fmt: skip
    signature = sign(receipt, Domain(CHAIN_ID, pool.core.attestations.address), OPERATOR.key)
    return SignedReceipt(receipt, signature, OPERATOR.address, input_cid=raw_cid(digest))


def raw_cid(digest: Bytes32) -> str:
    """CIDv1 of one raw block."""
    body = b"\x01\x55\x12\x20" + bytes.fromhex(digest[2:])
    return "b" + base64.b32encode(body).decode().lower().rstrip("=")


@pytest.fixture
def bundle(pool: Pool) -> ReceiptBundle:
    assert pool.bundle is not None
    return pool.bundle
