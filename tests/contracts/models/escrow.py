"""Escrow in plain Python, written from its interface: one token, times and amounts as integers."""

from collections import defaultdict
from dataclasses import dataclass, field

NOTICE = 900
PPM = 1_000_000


class Refused(Exception):
    """The contract must revert with this error and these values."""

    def __init__(self, error: str, *values: object) -> None:
        super().__init__(error, *values)
        self.error = error
        self.values = values


def require(condition: bool, error: str, *values: object) -> None:
    if not condition:
        raise Refused(error, *values)


@dataclass
class Lease:
    payer: str
    payee: str
    opened_at: int
    price: int
    duration: int
    deposit_seconds: int
    fee_ppm: int
    burn_ppm: int
    claim_window: int
    stopped_at: int | None = None
    collected: int = 0
    is_settled: bool = False
    # Prices of a resized lease so far, each with the time until which it was charged.
    earlier: list[tuple[int, int]] = field(default_factory=list)

    @property
    def deposit(self) -> int:
        return (self.earlier[0][0] if self.earlier else self.price) * self.deposit_seconds

    @property
    def rent(self) -> int:
        """What it costs when nobody stops it."""
        return self.cost(self.opened_at + self.duration)

    def cost(self, until: int) -> int:
        total, since = 0, self.opened_at
        for price, end in self.earlier:
            total, since = total + price * (end - since), end
        return total + self.price * (until - since)

    @property
    def ends_at(self) -> int:
        return self.opened_at + self.duration if self.stopped_at is None else self.stopped_at

    def accrued(self, now: int) -> int:
        return self.cost(min(now, self.ends_at))

    def collectable(self, cumulative: int, now: int) -> int:
        if self.is_settled:
            return 0
        return max(0, min(cumulative, self.accrued(now)) - self.collected)

    def fee(self, cumulative: int) -> int:
        return cumulative * self.fee_ppm // PPM

    def burn(self, cumulative: int) -> int:
        return (cumulative - self.fee(cumulative)) * self.burn_ppm // PPM


@dataclass
class EscrowModel:
    treasury: str
    free: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    noticed: dict[str, tuple[int, int]] = field(default_factory=lambda: defaultdict(lambda: (0, 0)))
    owed: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    fees: int = 0
    burns: int = 0
    burn_pending: int = 0
    leases: dict[str, Lease] = field(default_factory=dict)
    nonces: set[tuple[str, int]] = field(default_factory=set)
    inflow: int = 0
    outflow: int = 0

    @property
    def balance(self) -> int:
        return self.inflow - self.outflow

    @property
    def buckets(self) -> int:
        """What the contract owes to somebody, counted from the records alone."""
        total = sum(self.free.values()) + sum(self.owed.values()) + self.fees + self.burns + self.burn_pending
        for lease in self.leases.values():
            if not lease.is_settled:
                total += lease.rent - lease.collected
                total += lease.deposit if lease.collected == 0 else 0
        return total

    def deposit(self, account: str, amount: int) -> None:
        require(amount > 0, "EscrowZeroAmount")
        self.inflow += amount
        self.free[account] += amount

    def notice(self, account: str, amount: int, now: int) -> None:
        require(amount > 0, "EscrowZeroAmount")
        self.noticed[account] = (amount, now + NOTICE)

    def withdraw(self, account: str, now: int) -> int:
        most, ready_at = self.noticed[account]
        require(most > 0, "EscrowNothingNoticed", account)
        require(now >= ready_at, "EscrowNoticeRunning", ready_at, now)
        amount = min(most, self.free[account])
        require(amount > 0, "EscrowInsufficientFree", 0, most)
        self.noticed[account] = (0, 0)
        self.free[account] -= amount
        self.outflow += amount
        return amount

    def cancel(self, account: str, nonce: int) -> None:
        require((account, nonce) not in self.nonces, "EscrowNonceUsed", account, nonce)
        self.nonces.add((account, nonce))

    def open(self, key: str, lease: Lease, nonce: int) -> None:
        require((lease.payer, nonce) not in self.nonces, "EscrowNonceUsed", lease.payer, nonce)
        earmark = lease.price * (lease.duration + lease.deposit_seconds)
        available = self.free[lease.payer]
        require(available >= earmark, "EscrowInsufficientFree", available, earmark)
        self.nonces.add((lease.payer, nonce))
        self.free[lease.payer] -= earmark
        self.leases[key] = lease

    def resize(self, key: str, price: int, now: int) -> None:
        lease = self.leases[key]
        require(not lease.is_settled, "EscrowLeaseSettled", key)
        require(lease.stopped_at is None and now < lease.ends_at, "EscrowLeaseStopped", key)
        more = (price - lease.price) * (lease.ends_at - now)
        require(self.free[lease.payer] >= more, "EscrowInsufficientFree", self.free[lease.payer], more)
        lease.earlier.append((lease.price, now))
        lease.price = price
        self.free[lease.payer] -= more

    def stop(self, key: str, now: int) -> None:
        lease = self.leases[key]
        require(lease.stopped_at is None, "EscrowLeaseStopped", key)
        lease.stopped_at = min(now, lease.ends_at)

    def collect(self, key: str, cumulative: int, now: int) -> int:
        lease = self.leases[key]
        require(not lease.is_settled, "EscrowLeaseSettled", key)
        paid = lease.collectable(cumulative, now)
        bound = min(cumulative, lease.accrued(now))
        require(paid > 0, "EscrowNothingToCollect", lease.collected, bound)
        self._pay(lease, paid)
        return paid

    def collect_many(self, claims: list[tuple[str, int]], now: int) -> int:
        total = 0
        for key, cumulative in claims:
            paid = self.leases[key].collectable(cumulative, now)
            if paid:
                self._pay(self.leases[key], paid)
            total += paid
        return total

    def settle(self, key: str, now: int) -> None:
        lease = self.leases[key]
        ends_at = lease.ends_at + lease.claim_window
        require(now >= ends_at, "EscrowClaimWindowOpen", ends_at, now)
        self._settle(key)

    def settle_early(self, key: str, now: int) -> None:
        require(now >= self.leases[key].ends_at, "EscrowLeaseRunning", key)
        self._settle(key)

    def withdraw_owed(self, account: str) -> int:
        amount = self.owed[account]
        require(amount > 0, "EscrowNothingOwed", account)
        self.owed[account] = 0
        self.outflow += amount
        return amount

    def sweep(self) -> tuple[int, int]:
        fees, burnt = self.fees, self.burns
        require(fees + burnt > 0, "EscrowZeroAmount")
        self.fees = self.burns = 0
        self.owed[self.treasury] += fees
        self.burn_pending += burnt
        return fees, burnt

    def flush(self) -> int:
        amount = self.burn_pending
        require(amount > 0, "EscrowZeroAmount")
        self.burn_pending = 0
        self.outflow += amount
        return amount

    def _pay(self, lease: Lease, paid: int) -> None:
        before, after = lease.collected, lease.collected + paid
        fee = lease.fee(after) - lease.fee(before)
        burnt = lease.burn(after) - lease.burn(before)
        lease.collected = after
        self.owed[lease.payee] += paid - fee - burnt
        self.fees += fee
        self.burns += burnt
        if before == 0:
            self.free[lease.payer] += lease.deposit

    def _settle(self, key: str) -> None:
        lease = self.leases[key]
        require(not lease.is_settled, "EscrowLeaseSettled", key)
        lease.is_settled = True
        self.free[lease.payer] += lease.rent - lease.collected
        if lease.collected == 0:
            self.burns += lease.deposit
