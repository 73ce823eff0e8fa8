"""Staking in plain Python, written from its interface: one token, one pool, times and amounts as integers."""

from collections import defaultdict
from dataclasses import dataclass, field

from models.escrow import PPM, require

MOST_THAWS = 8
NOBODY = "0x" + "00" * 20


@dataclass
class Provision:
    created_at: int
    active: int = 0
    frozen: int = 0
    exposure: int = 0
    retired_at: int = 0
    thaws: list[list[int]] = field(default_factory=list)
    added: list[tuple[int, int]] = field(default_factory=list)

    @property
    def thawing(self) -> int:
        return sum(amount for amount, _ in self.thaws)

    @property
    def unreserved(self) -> int:
        return max(0, self.active - self.exposure)


@dataclass
class Offence:
    provider: str
    frozen: int
    frozen_at: int


@dataclass
class StakingModel:
    pool: str
    slasher: str
    thaw_period: int
    cap_ppm: int
    idle: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    provisions: dict[str, Provision] = field(default_factory=dict)
    offences: dict[str, Offence] = field(default_factory=dict)
    payouts: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    burn_pending: int = 0
    inflow: int = 0
    outflow: int = 0

    @property
    def balance(self) -> int:
        return self.inflow - self.outflow

    @property
    def buckets(self) -> int:
        """What the contract owes to somebody, counted from the records alone."""
        staked = sum(p.active + p.frozen + p.thawing for p in self.provisions.values())
        paid_later = sum(amount for amount, _ in self.payouts.values())
        return staked + paid_later + sum(self.idle.values()) + self.burn_pending

    def deposit(self, account: str, amount: int) -> None:
        require(amount > 0, "StakingZeroAmount")
        self.inflow += amount
        self.idle[account] += amount

    def withdraw(self, account: str, amount: int) -> None:
        require(amount > 0, "StakingZeroAmount")
        self._take_idle(account, amount)
        self.outflow += amount

    def provision(self, account: str, amount: int, now: int) -> None:
        require(amount > 0, "StakingZeroAmount")
        self._take_idle(account, amount)
        mine = self.provisions.setdefault(account, Provision(now))
        mine.active += amount
        mine.retired_at = 0
        mine.added.append((now, amount))

    def thaw(self, account: str, amount: int, now: int) -> None:
        require(amount > 0, "StakingZeroAmount")
        mine = self._provision(account)
        available = self.thawable(account, now)
        require(amount <= available, "StakingInsufficientUnreserved", available, amount)
        require(len(mine.thaws) < MOST_THAWS, "StakingTooManyThaws", len(mine.thaws), MOST_THAWS)
        mine.active -= amount
        mine.thaws.append([amount, now + self.thaw_period])

    def complete(self, account: str, now: int) -> int:
        mine = self._provision(account)
        amount = sum(entry[0] for entry in mine.thaws if entry[1] <= now)
        require(amount > 0, "StakingNothingMature", self.pool, account)
        mine.thaws = [entry for entry in mine.thaws if entry[1] > now]
        self.idle[account] += amount
        return amount

    def retire(self, account: str, now: int) -> None:
        mine = self._provision(account)
        require(mine.retired_at == 0, "StakingRetired", mine.retired_at)
        mine.retired_at = now

    def reserve(self, account: str, amount: int) -> None:
        mine = self.provisions.get(account, Provision(0))
        require(mine.retired_at == 0, "StakingRetired", mine.retired_at)
        require(amount <= mine.unreserved, "StakingInsufficientUnreserved", mine.unreserved, amount)
        mine.exposure += amount

    def release(self, account: str, amount: int) -> None:
        mine = self.provisions.get(account, Provision(0))
        require(amount <= mine.exposure, "StakingExposureBelow", mine.exposure, amount)
        mine.exposure -= amount

    def freeze(self, account: str, offence: str, offended_at: int, amount: int, now: int) -> int:
        mine = self._provision(account)
        require(offence not in self.offences, "StakingOffenceKnown", offence)
        frozen = min(amount, self.slashable(account, offended_at))
        rest = frozen
        for entry in mine.thaws:
            taken = min(rest, entry[0])
            entry[0] -= taken
            rest -= taken
        mine.thaws = [entry for entry in mine.thaws if entry[0] > 0]
        mine.active -= rest
        mine.frozen += frozen
        self.offences[offence] = Offence(account, frozen, now)
        return frozen

    def unfreeze(self, offence: str) -> int:
        entry = self._offence(offence)
        amount, entry.frozen = entry.frozen, 0
        mine = self.provisions[entry.provider]
        mine.frozen -= amount
        mine.active += amount
        return amount

    def unfreeze_expired(self, offence: str, now: int) -> int:
        ends_at = self._offence(offence).frozen_at + self.thaw_period
        require(now >= ends_at, "StakingFreezeRunning", ends_at, now)
        return self.unfreeze(offence)

    def slash(self, offence: str, amount: int, split: tuple[str, int, str, int], now: int) -> int:
        entry = self._offence(offence)
        taken = min(amount, entry.frozen)
        renter, renter_amount, challenger, challenger_amount = split
        to_challenger = min(challenger_amount, taken // 4) if challenger not in (NOBODY, self.slasher) else 0
        to_renter = min(renter_amount, taken // 2 - to_challenger) if renter not in (NOBODY, self.slasher) else 0
        for beneficiary, share in ((challenger, to_challenger), (renter, to_renter)):
            if share:
                held = self.payouts.get((offence, beneficiary), (0, 0))[0]
                self.payouts[offence, beneficiary] = (held + share, now + self.thaw_period)
        self.burn_pending += taken - to_challenger - to_renter
        entry.frozen -= taken
        self.provisions[entry.provider].frozen -= taken
        self.unfreeze(offence)
        return taken

    def withdraw_payout(self, offence: str, beneficiary: str, now: int) -> int:
        amount, matures_at = self.payouts.get((offence, beneficiary), (0, 0))
        require(amount > 0, "StakingNothingToPay", offence, beneficiary)
        require(now >= matures_at, "StakingPayoutImmature", matures_at, now)
        del self.payouts[offence, beneficiary]
        self.outflow += amount
        return amount

    def flush(self) -> int:
        amount = self.burn_pending
        require(amount > 0, "StakingZeroAmount")
        self.burn_pending = 0
        self.outflow += amount
        return amount

    def thawable(self, account: str, now: int) -> int:
        mine = self.provisions.get(account)
        if mine is None:
            return 0
        is_void = mine.retired_at > 0 and now >= mine.retired_at + self.thaw_period
        return mine.active if is_void else mine.unreserved

    def slashable(self, account: str, offended_at: int) -> int:
        mine = self.provisions.get(account)
        if mine is None or offended_at < mine.created_at:
            return 0
        held = mine.active + mine.thawing
        newer = sum(amount for time, amount in mine.added if time > offended_at)
        cap = -(-(held + mine.frozen) * self.cap_ppm // PPM)
        return min(cap, max(0, held - newer))

    def _take_idle(self, account: str, amount: int) -> None:
        available = self.idle[account]
        require(amount <= available, "StakingInsufficientIdle", available, amount)
        self.idle[account] -= amount

    def _provision(self, account: str) -> Provision:
        mine = self.provisions.get(account)
        require(mine is not None, "StakingProvisionUnknown", self.pool, account)
        assert mine is not None
        return mine

    def _offence(self, offence: str) -> Offence:
        entry = self.offences.get(offence)
        require(entry is not None, "StakingOffenceUnknown", offence)
        assert entry is not None
        return entry
