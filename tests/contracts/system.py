"""The whole system on Brownie's chain: one pool, one staked provider with one device, one funded renter, and what they sign.

Signatures come from eth-account and the schema alone, not from the code under test.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import brownie
import pytest
from brownie.network.account import LocalAccount
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_utils.crypto import keccak

SCHEMA = json.loads((Path(__file__).parents[2] / "sdk/millpond/protocol/eip712.json").read_text())["types"]
ZERO = "0x" + "00" * 20
EMPTY = "0x" + "00" * 32
DAY = 86_400
PRICE = 10**12
DURATION = 7_200
STAKE = 10**18
FUNDS = 10**18
MIN_PROVISION = 10**15
SHARE, MEMORY = 250, 4_096
MODEL = "0x" + keccak(text="H200").hex()

PARAMS = {
    "token": ZERO,
    "slasher": ZERO,
    "treasury": ZERO,
    "feePpm": 20_000,
    "burnPpm": 5_000,
    "exposurePpm": 1_000_000,
    "slashCapPpm": 500_000,
    "claimWindow": DAY,
    "disputeWindow": 2 * DAY,
    "maxDuration": 7 * DAY,
    "thawPeriod": 21 * DAY,
    "depositSeconds": 900,
    "grace": 120,
    "minProvision": MIN_PROVISION,
}


def word(text: str) -> bytes:
    """Short text as bytes32; Brownie itself would pad on the left."""
    return text.encode().ljust(32, b"\0")


def shown(argument: Any) -> str:
    """How Brownie writes an argument of a custom error."""
    if isinstance(argument, str) and argument.startswith("0x") and len(argument) == 66:
        return repr(bytes.fromhex(argument[2:]))
    if isinstance(argument, bytes):
        return repr(argument)
    return str(argument).lower()


def refuses(error: str, *arguments: Any) -> Any:
    """Expects a transaction to fail with this custom error and these arguments."""
    return brownie.reverts(f"{error}: {', '.join(map(shown, arguments))}" if arguments else f"{error}: ")


def party(name: str) -> LocalAccount:
    """An account whose key is known, so that it can sign and send."""
    return brownie.accounts.add("0x" + keccak(text=name).hex())


def typed_data(name: str, message: dict[str, Any], contract: str) -> Any:
    return encode_typed_data(
        domain_data={
            "name": "Millpond",
            "version": "1",
            "chainId": brownie.chain.id,
            "verifyingContract": contract,
        },
        message_types={name: [{"type": kind, "name": field} for kind, field, _ in SCHEMA[name]["fields"]]},
        message_data=message,
    )


def digest_of(name: str, message: dict[str, Any], contract: str) -> str:
    typed = typed_data(name, message, contract)
    return "0x" + keccak(b"\x19" + typed.version + typed.header + typed.body).hex()


def struct_hash(name: str, message: dict[str, Any]) -> str:
    return "0x" + typed_data(name, message, ZERO).body.hex()


def sign(name: str, message: dict[str, Any], contract: str, signer: LocalAccount) -> str:
    signature = Account.sign_message(typed_data(name, message, contract), signer.private_key).signature
    return "0x" + bytes(signature).hex()


def warp(seconds: int) -> None:
    brownie.chain.sleep(seconds)
    brownie.chain.mine()


def opened(tx: Any) -> str:
    return str(tx.events["LeaseOpened"]["lease"])


@dataclass
class System:
    """Contracts and parties; see `deploy`."""

    admin: Any
    pool_owner: LocalAccount
    node: LocalAccount
    provider: LocalAccount
    operator: LocalAccount
    renter: LocalAccount
    session: LocalAccount
    stranger: LocalAccount
    payout: str
    treasury: str
    burn_sink: str
    token: Any = None
    tokens: Any = None
    escrow: Any = None
    staking: Any = None
    devices: Any = None
    attestations: Any = None
    implementation: Any = None
    factory: Any = None
    slasher: Any = None
    pool: Any = None
    device: str = ""
    nonce: int = 0

    def params(self, **changes: Any) -> dict[str, Any]:
        parties = {"token": self.token.address, "slasher": self.slasher.address, "treasury": self.treasury}
        return PARAMS | parties | changes

    def create_pool(self, label: str, **changes: Any) -> Any:
        params = tuple(self.params(**changes).values())
        tx = self.factory.createPool(word(label), self.node, params, {"from": self.pool_owner})
        return brownie.Contract.from_abi("Controller", tx.return_value, brownie.Controller.abi)

    def stake(self, pool: Any, amount: int) -> None:
        self.token.mint(self.provider, amount, {"from": self.provider})
        self.token.approve(self.staking, amount, {"from": self.provider})
        self.staking.deposit(self.token, amount, {"from": self.provider})
        self.staking.provision(pool, amount, self.slasher, 21 * DAY, {"from": self.provider})

    def fund(self, account: LocalAccount, amount: int) -> None:
        self.token.mint(account, amount, {"from": account})
        self.token.approve(self.escrow, amount, {"from": account})
        self.escrow.deposit(self.token, amount, {"from": account})

    def register_device(self, uuid: str) -> str:
        uuid_hash = "0x" + keccak(text=uuid).hex()
        tx = self.devices.registerDevice(uuid_hash, 1, 24_576, MODEL, {"from": self.provider})
        return str(tx.return_value)

    def offer(self, **changes: Any) -> dict[str, Any]:
        return {
            "controller": self.pool.address,
            "device": self.device,
            "epoch": self.devices.deviceOf(self.device)["offerEpoch"],
            "mode": 1,
            "isolation": 1,
            "share": SHARE,
            "memoryMiB": MEMORY,
            "cpuMilli": 2_000,
            "ramMiB": 8_192,
            "diskMiB": 16_384,
            "bandwidthMbit": 0,
            "pricePerSecond": PRICE,
            "tick": 60,
            "notice": 600,
            "determinism": EMPTY,
            "maxDuration": DAY,
            "capPerRenter": 0,
            "deadline": brownie.chain.time() + 1_800,
        } | changes

    def request(self, **changes: Any) -> dict[str, Any]:
        self.nonce += 1
        return {
            "renter": self.renter.address,
            "controller": self.pool.address,
            "token": self.token.address,
            "offer": EMPTY,
            "submitter": self.node.address,
            "isolation": 1,
            "share": SHARE,
            "memoryMiB": MEMORY,
            "cpuMilli": 1_000,
            "ramMiB": 1_024,
            "diskMiB": 1_024,
            "maxPricePerSecond": PRICE,
            "duration": DURATION,
            "depositSeconds": 900,
            "voucherSigner": self.session.address,
            "verification": 0,
            "data": EMPTY,
            "deadline": brownie.chain.time() + 1_800,
            "nonce": self.nonce,
            "replacements": 0,
            "spendCap": 0,
        } | changes

    def open(self, offer: dict[str, Any] | None = None, request: dict[str, Any] | None = None) -> Any:
        """Opens a lease as the node; returns the transaction."""
        offer, request = offer or self.offer(), request or self.request()
        return self.pool.openLease(
            tuple(offer.values()),
            sign("Offer", offer, self.pool.address, self.operator),
            tuple(request.values()),
            sign("Request", request, self.escrow.address, self.renter),
            {"from": self.node},
        )

    def voucher(self, lease: str, cumulative: int) -> str:
        message = {"lease": lease, "cumulative": cumulative}
        return sign("Voucher", message, self.escrow.address, self.session)


def deploy() -> System:
    names = ("pool owner", "node", "provider", "operator", "renter", "session", "stranger")
    system = System(
        brownie.accounts[0],
        *(party(name) for name in names),
        payout=party("payout").address,
        treasury=party("treasury").address,
        burn_sink=party("burn sink").address,
    )
    by_admin = {"from": system.admin}
    system.token = brownie.MockToken.deploy("Mock", "MOCK", 18, by_admin)
    system.tokens = brownie.Tokens.deploy(system.admin, by_admin)
    system.tokens.list(system.token, by_admin)
    system.escrow = brownie.Escrow.deploy(system.tokens, system.burn_sink, by_admin)
    system.staking = brownie.Staking.deploy(system.tokens, system.burn_sink, by_admin)
    system.devices = brownie.Devices.deploy(by_admin)
    system.attestations = brownie.Attestations.deploy(7 * DAY, by_admin)
    system.implementation = brownie.Controller.deploy(system.escrow, system.staking, system.devices, by_admin)
    system.factory = brownie.PoolFactory.deploy(system.implementation, system.tokens, by_admin)
    system.slasher = brownie.TestSlasher.deploy(system.staking, by_admin)
    return system


@pytest.fixture(scope="module")
def system() -> System:
    """The system with its pool, provider, device and renter in place."""
    made = deploy()
    made.pool = made.create_pool("main")
    made.stake(made.pool, STAKE)
    made.devices.registerProvider(made.operator, made.payout, {"from": made.provider})
    made.device = made.register_device("gpu-0")
    made.devices.join(made.device, made.pool, {"from": made.provider})
    made.fund(made.renter, FUNDS)
    return made


@pytest.fixture
def lease(system: System) -> str:
    return opened(system.open())
