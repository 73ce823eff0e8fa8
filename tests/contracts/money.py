"""The money contracts beside a mock pool and a test slasher, and the few things their tests do again and again."""

from dataclasses import dataclass
from typing import Any

import brownie
from brownie.network.account import LocalAccount
from system import DAY, EMPTY, ZERO, party, sign

HOUR = 3_600
NOTICE = 900
PRICE = 100
DURATION = HOUR
DEPOSIT_SECONDS = 60
RENT = PRICE * DURATION
DEPOSIT = PRICE * DEPOSIT_SECONDS
CLAIM_WINDOW = DAY
FEE_PPM, BURN_PPM = 20_000, 10_000
THAW = 10 * DAY
CAP_PPM = 500_000
FUNDS = 1_000_000
OFFER = "0x" + "0f" * 32
OFFENCE = "0x" + "ff" * 32


def refusal(error: str, *values: Any) -> Any:
    """`brownie.reverts` for a custom error with these values: numbers, accounts, 32 bytes in hex."""
    return brownie.reverts(revert_text(error, *values))


def revert_text(error: str, *values: Any) -> str:
    """A custom error as Brownie writes it."""
    return f"{error}: {', '.join(_text(value) for value in values)}" if values else f"{error}: "


def _text(value: Any) -> str:
    is_digest = isinstance(value, str) and len(value) == 66
    return repr(bytes.fromhex(value[2:])) if is_digest else str(value).lower()


def warp_to(time: int) -> None:
    """Mines a block of exactly this time."""
    next_block_at(time)
    brownie.chain.mine()


def next_block_at(time: int) -> None:
    brownie.web3.provider.make_request("evm_setNextBlockTimestamp", [time])


def now() -> int:
    return int(brownie.chain[-1].timestamp)


@dataclass
class Money:
    """Contracts and parties; see `deploy`."""

    admin: Any
    renter: LocalAccount
    session: LocalAccount
    provider: LocalAccount
    challenger: LocalAccount
    payee: LocalAccount
    treasury: LocalAccount
    stranger: LocalAccount
    sink: str
    token: Any = None
    tokens: Any = None
    escrow: Any = None
    staking: Any = None
    pool: Any = None
    slasher: Any = None

    def give(self, account: Any, spender: Any, amount: int) -> None:
        """Mints `amount` to `account` and lets `spender` pull it."""
        self.token.mint(account, amount, {"from": self.admin})
        self.token.approve(spender, amount, {"from": account})

    def fund(self, account: Any, amount: int) -> None:
        self.give(account, self.escrow, amount)
        self.escrow.deposit(self.token, amount, {"from": account})

    def stake(self, account: Any, amount: int) -> None:
        self.give(account, self.staking, amount)
        self.staking.deposit(self.token, amount, {"from": account})

    def provision(self, amount: int) -> Any:
        return self.staking.provision(self.pool, amount, self.slasher, THAW, {"from": self.provider})

    def request(self, nonce: int, **changes: Any) -> dict[str, Any]:
        return {
            "renter": self.renter.address,
            "controller": self.pool.address,
            "token": self.token.address,
            "offer": EMPTY,
            "submitter": ZERO,
            "isolation": 1,
            "share": 250,
            "memoryMiB": 4_096,
            "cpuMilli": 1_000,
            "ramMiB": 1_024,
            "diskMiB": 1_024,
            "maxPricePerSecond": PRICE,
            "duration": DURATION,
            "depositSeconds": DEPOSIT_SECONDS,
            "voucherSigner": self.session.address,
            "verification": 0,
            "data": EMPTY,
            "deadline": 2**64 - 1,
            "nonce": nonce,
            "replacements": 0,
            "spendCap": 0,
        } | changes

    def terms(self, **changes: Any) -> dict[str, Any]:
        return {
            "offer": OFFER,
            "payee": self.payee.address,
            "pricePerSecond": PRICE,
            "duration": DURATION,
        } | changes

    def pool_terms(self, **changes: Any) -> dict[str, Any]:
        return {
            "treasury": self.treasury.address,
            "feePpm": FEE_PPM,
            "burnPpm": BURN_PPM,
            "claimWindow": CLAIM_WINDOW,
            "depositSeconds": DEPOSIT_SECONDS,
        } | changes

    def signed(self, request: dict[str, Any], signer: LocalAccount | None = None) -> str:
        return sign("Request", request, self.escrow.address, signer or self.renter)

    def open(self, nonce: int, **changes: Any) -> Any:
        """Opens a lease with changed terms; returns the transaction, whose return value is the lease."""
        request = self.request(nonce)
        return self.pool.openLease(
            tuple(request.values()),
            self.signed(request),
            tuple(self.terms(**changes).values()),
            {"from": self.admin},
        )

    def resize(self, lease: str, price: int, sequence: int) -> dict[str, Any]:
        return {
            "lease": lease,
            "share": 1,
            "memoryMiB": 1,
            "pricePerSecond": price,
            "sequence": sequence,
            "deadline": 2**64 - 1,
        }

    def signed_resize(self, resize: dict[str, Any], signer: LocalAccount | None = None) -> str:
        return sign("Resize", resize, self.escrow.address, signer or self.renter)

    def voucher(self, lease: str, cumulative: int, signer: LocalAccount | None = None) -> str:
        message = {"lease": lease, "cumulative": cumulative}
        return sign("Voucher", message, self.escrow.address, signer or self.session)

    def collect(self, lease: str, cumulative: int) -> Any:
        signature = self.voucher(lease, cumulative)
        return self.escrow.collect(self.pool, lease, cumulative, signature, {"from": self.stranger})

    def free(self, account: Any) -> int:
        return int(self.escrow.free(self.token, account))

    def takings(self) -> tuple[int, int]:
        """Fees and burns of the pool's leases that wait for a sweep."""
        return tuple(self.escrow.takings(self.pool, self.token))

    def owed(self, account: Any) -> int:
        return int(self.escrow.owed(self.token, account))

    def provision_of(self, provider: Any = None) -> dict[str, Any]:
        return dict(self.staking.provisionOf(self.pool, provider or self.provider).dict())

    def freeze(self, offence: str, amount: int, offended_at: int | None = None) -> Any:
        at = brownie.chain.time() if offended_at is None else offended_at
        return self.slasher.freeze(self.pool, self.provider, offence, at, amount, {"from": self.admin})

    def split(self, renter_amount: int = 0, challenger_amount: int = 0) -> tuple[Any, ...]:
        return (self.renter, renter_amount, self.challenger, challenger_amount)


def deploy() -> Money:
    names = ("renter", "session", "provider", "challenger", "payee", "treasury", "stranger")
    money = Money(brownie.accounts[0], *(party(name) for name in names), sink=party("burn sink").address)
    by_admin = {"from": money.admin}
    money.token = brownie.MockToken.deploy("Mock", "MOCK", 18, by_admin)
    money.tokens = brownie.Tokens.deploy(money.admin, by_admin)
    money.tokens.list(money.token, by_admin)
    money.escrow = brownie.Escrow.deploy(money.tokens, money.sink, by_admin)
    money.staking = brownie.Staking.deploy(money.tokens, money.sink, by_admin)
    money.pool = brownie.MockPool.deploy(money.escrow, money.staking, by_admin)
    money.slasher = brownie.TestSlasher.deploy(money.staking, by_admin)
    money.pool.setTerms(money.token, money.slasher, THAW, CAP_PPM, by_admin)
    money.pool.setPoolTerms(tuple(money.pool_terms().values()), by_admin)
    return money
