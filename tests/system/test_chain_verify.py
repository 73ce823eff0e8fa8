"""A receipt verified with nothing but an RPC URL and its JSON, after a whole lease on a real Anvil; any change fails it."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from millpond.chain import deployment
from millpond.chain.address_book import DeploymentSettings
from millpond.chain.bindings import Controller, MockToken
from millpond.chain.calls import Call
from millpond.chain.cursor import Cursor
from millpond.chain.deployment import CoreContracts
from millpond.chain.devnet import Devnet
from millpond.chain.eth import Eth, TxReceipt
from millpond.chain.follower import Follower, Seen
from millpond.chain.keys import Wallet, development_wallet, new_wallet
from millpond.chain.outbox import MemoryOutbox
from millpond.chain.transactor import Transactor, TransactorConfig
from millpond.chain.verify import verify_receipt, verify_with
from millpond.protocol import merkle, wire
from millpond.protocol.errors import MillpondError
from millpond.protocol.hashing import keccak256, sha256
from millpond.protocol.ids import ZERO_ADDRESS, ZERO_BYTES32, Address, Bytes32, bytes32, device_id, lease_id, task_id
from millpond.protocol.messages import SignedReceipt
from millpond.protocol.receipts import ReceiptError, receipt_leaf
from millpond.protocol.signed import Offer, Receipt, Request, Voucher
from millpond.protocol.signing import Domain, sign
from millpond.protocol.views import ReceiptBundle

pytestmark = pytest.mark.anvil

OWNER, PROVIDER, RENTER, NODE = (development_wallet(index, 31337) for index in range(4))
OPERATOR, SESSION = new_wallet(), new_wallet()
FAST = TransactorConfig(poll_s=0.02, idle_poll_s=0.1, resend_after_s=0.1)
UUID_HASH, JOB = bytes32(keccak256(b"GPU-1")), bytes32(keccak256(b"job"))
PRICE, DURATION = 1000, 3600


@dataclass
class World:
    """One pool with one provider, one lease of one device, and a batch of three posted receipts."""

    eth: Eth
    core: CoreContracts
    pool: Controller
    token: MockToken
    senders: dict[Address, Transactor]
    lease: Bytes32 = ZERO_BYTES32
    bundle: ReceiptBundle | None = None

    async def do(self, wallet: Wallet, call: Call) -> TxReceipt:
        transactor = self.senders[wallet.address]
        handle = await transactor.send_call(f"{call.label} {len(transactor.rows())}", call)
        return await handle.mined(10)

    async def now(self) -> int:
        header = await self.eth.header()
        assert header is not None
        return header.timestamp


@pytest.fixture
async def world(eth: Eth) -> AsyncIterator[World]:
    senders = {}
    for wallet in (OWNER, PROVIDER, RENTER, NODE):
        senders[wallet.address] = Transactor(eth, wallet, MemoryOutbox(), FAST)
        await senders[wallet.address].start()
    owner = senders[OWNER.address]
    book = await deployment.apply(owner, DeploymentSettings(OWNER.address))
    book = await deployment.apply_development(owner, book)
    params = deployment.default_pool_params(book.address("MockToken"), OWNER.address, OWNER.address)
    pool = await deployment.create_pool(owner, book, ZERO_BYTES32, NODE.address, params)
    core = CoreContracts(eth, book)
    made = World(eth, core, core.pool(pool), MockToken(eth, book.address("MockToken")), senders)
    await set_up_provider(made, params.slasher, params.thawPeriod)
    made.lease = await open_lease(made)
    made.bundle = await post_receipts(made)
    yield made
    for transactor in senders.values():
        await transactor.stop()


async def set_up_provider(world: World, slasher: Address, thaw_period: int) -> None:
    core, stake = world.core, 100 * PRICE * DURATION
    device = device_id(PROVIDER.address, UUID_HASH)
    for wallet, spender in ((PROVIDER, core.staking.address), (RENTER, core.escrow.address)):
        await world.do(wallet, world.token.mint(wallet.address, stake))
        await world.do(wallet, world.token.approve(spender, stake))
    await world.do(PROVIDER, core.staking.deposit(world.token.address, stake))
    await world.do(PROVIDER, core.staking.provision(world.pool.address, stake, slasher, thaw_period))
    await world.do(PROVIDER, core.devices.register_provider(OPERATOR.address, PROVIDER.address))
    await world.do(PROVIDER, core.devices.register_device(UUID_HASH, 1, 24_000, bytes32(keccak256(b"model"))))
    await world.do(PROVIDER, core.devices.join(device, world.pool.address))
    await world.do(RENTER, core.escrow.deposit(world.token.address, 10 * PRICE * DURATION))


async def open_lease(world: World) -> Bytes32:
    deadline = await world.now() + 600
    offer = Offer(
        controller=world.pool.address,
        device=device_id(PROVIDER.address, UUID_HASH),
        epoch=0,
        mode=1,
        isolation=1,
        share=500,
        memoryMiB=8000,
        cpuMilli=1000,
        ramMiB=4000,
        diskMiB=0,
        bandwidthMbit=0,
        pricePerSecond=PRICE,
        tick=10,
        notice=60,
        determinism=ZERO_BYTES32,
        maxDuration=DURATION,
        capPerRenter=0,
        deadline=deadline,
    )
    request = Request(
        renter=RENTER.address,
        controller=world.pool.address,
        token=world.token.address,
        offer=offer.struct_hash(),
        submitter=ZERO_ADDRESS,
        isolation=1,
        share=500,
        memoryMiB=8000,
        cpuMilli=0,
        ramMiB=0,
        diskMiB=0,
        maxPricePerSecond=PRICE,
        duration=DURATION,
        depositSeconds=60,
        voucherSigner=SESSION.address,
        verification=0,
        data=ZERO_BYTES32,
        deadline=deadline,
        nonce=1,
    )
    signatures = (
        sign(offer, Domain(31337, world.pool.address), OPERATOR.key),
        sign(request, Domain(31337, world.core.escrow.address), RENTER.key),
    )
    await world.do(NODE, world.pool.open_lease(offer, signatures[0], request, signatures[1]))
    return lease_id(31337, world.pool.address, offer.struct_hash(), request.struct_hash())


def signed_receipt(world: World, index: int, at: int, key: Wallet = OPERATOR, **changes: Any) -> SignedReceipt:
    receipt = Receipt(
        lease=world.lease,
        task=task_id(JOB, index),
        attempt=1,
        device=device_id(PROVIDER.address, UUID_HASH),
        image=ZERO_BYTES32,
        input=bytes32(sha256(b"input")),
        output=bytes32(sha256(b"output")),
        resultHash=bytes32(sha256(b"value")),
        startedAt=at,
        endedAt=at + 1,
        mode=0,
        status=0,
    )
    receipt = dataclasses.replace(receipt, **changes)
    domain = Domain(31337, world.core.attestations.address)
    cids = (cid_of(receipt.input), cid_of(receipt.output), cid_of(receipt.resultHash))
    return SignedReceipt(receipt, sign(receipt, domain, key.key), key.address, *cids)


def cid_of(digest: Bytes32) -> str:
    """CIDv1 of one raw block, base32."""
    raw = b"\x01\x55\x12\x20" + bytes.fromhex(digest[2:])
    return "b" + base64.b32encode(raw).decode().lower().rstrip("=")


async def post_receipts(world: World, key: Wallet = OPERATOR, **changes: Any) -> ReceiptBundle:
    receipts = [signed_receipt(world, index, await world.now(), key, **changes) for index in range(3)]
    leaves = [receipt_leaf(item) for item in receipts]
    root = bytes32(merkle.root(leaves))
    await world.do(NODE, world.core.attestations.post_receipts(world.pool.address, root, 3, ZERO_BYTES32))
    return ReceiptBundle(
        chain_id=31337,
        controller=world.pool.address,
        escrow=world.core.escrow.address,
        devices=world.core.devices.address,
        attestations=world.core.attestations.address,
        poster=NODE.address,
        root=root,
        count=3,
        index=2,
        proof=tuple(bytes32(item) for item in merkle.proof(leaves, 2)),
        signed=receipts[2],
    )


def bundle_of(world: World) -> ReceiptBundle:
    assert world.bundle is not None
    return world.bundle


async def test_receipt_of_a_lease_verifies_from_its_json_and_an_rpc_url(world: World, chain: Devnet) -> None:
    bundle = wire.read(ReceiptBundle, wire.write(bundle_of(world)))
    report = await verify_receipt(bundle, chain.url)
    assert (report.provider, report.worker, report.lease) == (PROVIDER.address, OPERATOR.address, world.lease)
    assert (report.lease_status, report.is_operator_now, report.is_posted_by_node) == ("open", True, True)
    assert report.challengeable_until == report.posted_at + 7 * 86_400
    assert report.is_challengeable


async def test_any_changed_character_of_the_bundle_fails(world: World) -> None:
    text = wire.write(bundle_of(world)).decode()
    data = json.loads(text)
    leaves = sorted(places(data))
    tried = 0
    for place in leaves:
        if place[-1] == "log_cid":
            continue
        changed = json.loads(text)
        flip(changed, place)
        tried += 1
        with pytest.raises(MillpondError):
            await verify_with(world.eth, wire.read(ReceiptBundle, json.dumps(changed)))
    assert tried >= 20


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(data, dict):
        return [place for key, item in data.items() for place in places(item, (*path, key))]
    if isinstance(data, list):
        return [place for index, item in enumerate(data) for place in places(item, (*path, index))]
    return [path]


def flip(data: Any, place: tuple[Any, ...]) -> None:
    """Changes one value: a number by one, one character of a text."""
    for key in place[:-1]:
        data = data[key]
    value = data[place[-1]]
    if isinstance(value, int):
        data[place[-1]] = value + 1
    elif value.startswith("0x"):
        middle = len(value) // 2
        data[place[-1]] = value[:middle].lower() + ("1" if value[middle] != "1" else "2") + value[middle + 1 :].lower()
    elif value.isdecimal():
        data[place[-1]] = str(int(value) + 1)
    else:
        middle = len(value) // 2
        data[place[-1]] = value[:middle] + ("a" if value[middle] != "a" else "b") + value[middle + 1 :]


async def test_receipt_signed_by_a_stranger_fails_although_its_root_is_posted(world: World) -> None:
    bundle = await post_receipts(world, key=new_wallet(), resultHash=ZERO_BYTES32)
    with pytest.raises(ReceiptError, match="not the operator"):
        await verify_with(world.eth, bundle)


async def test_receipt_of_a_lease_the_pool_does_not_have_fails(world: World) -> None:
    bundle = await post_receipts(world, lease=bytes32(keccak256(b"invented")))
    with pytest.raises(ReceiptError, match="no lease"):
        await verify_with(world.eth, bundle)


async def test_receipt_for_another_device_fails(world: World) -> None:
    bundle = await post_receipts(world, device=bytes32(keccak256(b"other")))
    with pytest.raises(ReceiptError, match="on device"):
        await verify_with(world.eth, bundle)


async def test_receipt_whose_root_nobody_posted_fails(world: World) -> None:
    bundle = dataclasses.replace(bundle_of(world), poster=RENTER.address)
    with pytest.raises(ReceiptError, match="posted no root"):
        await verify_with(world.eth, bundle)


async def test_bundle_that_names_a_fake_contract_fails(world: World) -> None:
    fake = Address("0x2222222222222222222222222222222222222222")
    await world.eth.rpc.call("anvil_setCode", fake, "0x600160005260206000f3")
    for name in ("attestations", "devices", "escrow", "controller"):
        bundle = dataclasses.replace(bundle_of(world), **{name: fake})
        with pytest.raises(MillpondError):
            await verify_with(world.eth, bundle)


async def test_bundle_with_a_malformed_cid_fails(world: World) -> None:
    right = bundle_of(world).signed.output_cid
    spare_bits_set = right[:-1] + chr(ord(right[-1]) + 1)
    for cid in (
        "b",
        "bafy",
        "B" + "A" * 58,
        "b" + "a" * 58 + "=",
        "zQm",
        "b" + "1" * 58,
        right.upper(),
        spare_bits_set,
    ):
        signed = dataclasses.replace(bundle_of(world).signed, output_cid=cid)
        with pytest.raises(ReceiptError):
            await verify_with(world.eth, dataclasses.replace(bundle_of(world), signed=signed))


async def test_receipt_of_an_operator_replaced_since_still_verifies(world: World) -> None:
    await world.eth.rpc.call("evm_increaseTime", 60)
    await world.do(PROVIDER, world.core.devices.set_operator(new_wallet().address))
    report = await verify_with(world.eth, bundle_of(world))
    assert not report.is_operator_now


async def test_receipt_dated_after_the_operator_was_replaced_fails(world: World) -> None:
    await world.do(PROVIDER, world.core.devices.set_operator(new_wallet().address))
    await world.eth.rpc.call("evm_increaseTime", 60)
    await world.eth.rpc.call("anvil_mine", "0x1")
    bundle = await post_receipts(world)
    with pytest.raises(ReceiptError, match="not the operator"):
        await verify_with(world.eth, bundle)


async def test_C44_events_alone_rebuild_what_escrow_says(world: World) -> None:
    await world.eth.rpc.call("evm_increaseTime", 100)
    voucher = Voucher(world.lease, 50 * PRICE)
    escrow, token = world.core.escrow, world.token.address
    signature = sign(voucher, Domain(31337, escrow.address), SESSION.key)
    await world.do(NODE, escrow.collect(world.pool.address, world.lease, voucher.cumulative, signature))
    await world.do(RENTER, world.pool.close_lease(world.lease))
    await world.eth.rpc.call("evm_increaseTime", 2 * 86_400)
    await world.do(NODE, escrow.settle(world.pool.address, world.lease))
    free, paid = 0, 0
    for event in await seen_events(world.eth, escrow.address):
        args = event.args
        match event.name:
            case "Deposited":
                free += args["amount"]
            case "LeaseFunded":
                free -= args["earmark"]
            case "OpeningDepositReturned":
                free += args["amount"]
            case "LeaseSettled":
                free += args["refunded"]
            case "VoucherCollected":
                paid += args["paid"]
    assert await escrow.free(token, RENTER.address) == free
    assert paid == 50 * PRICE
    assert (await escrow.lease_account(world.pool.address, world.lease)).isSettled


async def seen_events(eth: Eth, address: Address) -> list[Any]:
    from millpond.chain import artefacts

    batch = await Follower(eth, {address: artefacts.load("Escrow").abi}, Cursor(0)).poll()
    assert batch is not None
    return [notice.event for notice in batch.notices if isinstance(notice, Seen)]
