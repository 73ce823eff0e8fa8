"""Random actions against Staking and its Python model, every getter compared after each burst."""

from typing import Any

from brownie.test import strategy
from models.machine import Machine
from models.staking import StakingModel
from money import CAP_PPM, THAW, Money, deploy, now, warp_to

OFFENCES = tuple("0x" + f"{number:064x}" for number in range(1, 9))
AMOUNTS = (0, 1, 5, 300, 300, 1_000, 4_000)
AGES = (0, 0, 1, 60, 3_600, 86_400, 20 * 86_400)


class StakingMachine(Machine):
    st_seed = strategy("uint32")
    actions = (
        (2, "deposit"),
        (1, "withdraw"),
        (4, "provision"),
        (6, "thaw"),
        (4, "complete"),
        (1, "retire"),
        (3, "reserve"),
        (3, "release"),
        (5, "freeze"),
        (1, "unfreeze"),
        (2, "unfreeze_expired"),
        (4, "slash"),
        (2, "withdraw_payout"),
        (1, "flush"),
        (1, "donate"),
    )

    def __init__(cls: Any, money: Money) -> None:  # noqa: N805
        cls.money = money
        cls.providers = (money.provider, money.stranger)
        cls.payees = (money.renter, money.challenger, money.provider, money.slasher)

    def setup(self) -> None:
        money = self.money
        for provider in self.providers:
            money.stake(provider, 20_000)
            money.give(provider, money.staking, 10**9)
        self.start(StakingModel(money.pool.address, money.slasher.address, THAW, CAP_PPM))
        for provider in self.providers:
            self.model.deposit(provider.address, 20_000)
        for _ in range(3):
            self.provision()

    def rule_burst(self, st_seed: int) -> None:
        self.burst(st_seed)

    def draw(self) -> tuple[Any, int, str]:
        """A provider, an amount, an offence."""
        return self.random.choice(self.providers), self.random.choice(AMOUNTS), self.random.choice(OFFENCES)

    def known(self) -> str:
        """Mostly an offence that was frozen for and, if any, is still open."""
        entries = self.model.offences
        live = [offence for offence in entries if entries[offence].frozen] or list(entries)
        return self.random.choice(live if live and self.random.random() < 0.8 else OFFENCES)

    def wait_for(self, times: list[int]) -> int:
        """Mostly waits until just before or at the first of these times."""
        if times and self.random.random() < 0.7:
            self.now = max(self.now, min(times) - self.random.choice((0, 0, 1)))
        return self.wait()

    def deposit(self) -> None:
        account, amount, _ = self.draw()
        self.wait()
        self.step(
            lambda model: model.deposit(account.address, amount),
            *(self.money.staking.deposit, self.money.token, amount),
            sender=account,
        )

    def withdraw(self) -> None:
        account, amount, _ = self.draw()
        self.wait()
        self.step(
            lambda model: model.withdraw(account.address, amount),
            *(self.money.staking.withdraw, self.money.token, amount, account),
            sender=account,
        )

    def provision(self) -> None:
        money, at, (account, amount, _) = self.money, self.wait(), self.draw()
        self.step(
            lambda model: model.provision(account.address, amount, at),
            *(money.staking.provision, money.pool, amount, money.slasher, THAW),
            sender=account,
        )

    def thaw(self) -> None:
        at, (account, amount, _) = self.wait(), self.draw()
        self.step(
            lambda model: model.thaw(account.address, amount, at),
            *(self.money.staking.thaw, self.money.pool, amount),
            sender=account,
        )

    def complete(self) -> None:
        account = self.draw()[0]
        mine = self.model.provisions.get(account.address)
        at = self.wait_for([matures for _, matures in mine.thaws] if mine else [])
        self.step(
            lambda model: model.complete(account.address, at),
            *(self.money.staking.completeThaw, self.money.pool),
            sender=account,
        )

    def retire(self) -> None:
        at, account = self.wait(), self.draw()[0]
        self.step(
            lambda model: model.retire(account.address, at),
            *(self.money.staking.retire, self.money.pool),
            sender=account,
        )

    def reserve(self) -> None:
        account, amount, _ = self.draw()
        self.wait()
        self.step(
            lambda model: model.reserve(account.address, amount),
            *(self.money.pool.reserve, account, amount),
            sender=self.money.admin,
        )

    def release(self) -> None:
        account, amount, _ = self.draw()
        self.wait()
        self.step(
            lambda model: model.release(account.address, amount),
            *(self.money.pool.release, account, amount),
            sender=self.money.admin,
        )

    def freeze(self) -> None:
        money, at, (account, amount, offence) = self.money, self.wait(), self.draw()
        offended = at - self.random.choice(AGES)
        self.step(
            lambda model: model.freeze(account.address, offence, offended, amount, at),
            *(money.slasher.freeze, money.pool, account, offence, offended, amount),
            sender=money.admin,
        )

    def unfreeze(self) -> None:
        offence = self.known()
        self.wait()
        self.step(lambda model: model.unfreeze(offence), self.money.slasher.unfreeze, offence, sender=self.money.admin)

    def unfreeze_expired(self) -> None:
        money, offence = self.money, self.known()
        at = self.wait_for([entry.frozen_at + THAW for entry in self.model.offences.values()][-1:])
        self.step(
            lambda model: model.unfreeze_expired(offence, at),
            *(money.staking.unfreezeExpired, money.slasher, offence),
            sender=money.admin,
        )

    def slash(self) -> None:
        money, at, amount, offence = self.money, self.wait(), self.draw()[1], self.known()
        renter, challenger = self.random.choice(self.payees), self.random.choice(self.payees)
        split = (renter.address, amount // 3, challenger.address, self.random.choice(AMOUNTS))
        self.step(
            lambda model: model.slash(offence, amount, split, at),
            *(money.slasher.slash, offence, amount, split),
            sender=money.admin,
        )

    def withdraw_payout(self) -> None:
        money, payouts = self.money, self.model.payouts
        offence, account = self.known(), self.random.choice(self.payees[:3])
        if payouts and self.random.random() < 0.8:
            offence, address = self.random.choice(list(payouts))
            account = next(payee for payee in self.payees if payee.address == address)
        at = self.wait_for([matures for _, matures in payouts.values()])
        self.step(
            lambda model: model.withdraw_payout(offence, account.address, at),
            *(money.staking.withdrawPayout, money.slasher, offence, account),
            sender=account,
        )

    def flush(self) -> None:
        self.wait()
        self.step(lambda model: model.flush(), self.money.staking.flushBurn, self.money.token, sender=self.money.admin)

    def donate(self) -> None:
        """A gift changes no bucket."""
        self.money.token.mint(self.money.staking, 1, {"from": self.money.admin})
        self.gifts += 1
        self.now = now()

    def invariant_providers(self) -> None:
        staking, pool, time = self.money.staking, self.money.pool, now()
        for account in self.providers:
            assert staking.idle(self.money.token, account) == self.model.idle[account.address]
            mine = self.model.provisions.get(account.address)
            made = staking.provisionOf(pool, account)
            if mine is None:
                assert made["active"] == 0
                continue
            assert (made["active"], made["thawing"], made["frozen"]) == (mine.active, mine.thawing, mine.frozen)
            assert (made["exposure"], made["retiredAt"]) == (mine.exposure, mine.retired_at)
            assert staking.thawEntries(pool, account) == tuple(tuple(entry) for entry in mine.thaws)
            assert staking.unreserved(pool, account) == (0 if mine.retired_at else mine.unreserved)
            assert staking.thawable(pool, account) == self.model.thawable(account.address, time)
            for ago in (0, 3_600, 20 * 86_400):
                expected = self.model.slashable(account.address, time - ago)
                assert staking.slashable(pool, account, time - ago) == expected

    def invariant_offences(self) -> None:
        staking, slasher = self.money.staking, self.money.slasher
        for offence in OFFENCES:
            entry = self.model.offences.get(offence)
            found = staking.offenceOf(slasher, offence)
            assert (found["frozen"], found["frozenAt"]) == ((entry.frozen, entry.frozen_at) if entry else (0, 0))
            for payee in self.payees:
                expected = self.model.payouts.get((offence, payee.address), (0, 0))
                assert staking.payoutOf(slasher, offence, payee) == expected

    def invariant_totals(self) -> None:
        money = self.money
        assert money.staking.burnPending(money.token) == self.model.burn_pending
        assert self.model.balance == self.model.buckets
        assert money.token.balanceOf(money.staking) == self.model.balance + self.gifts

    def teardown(self) -> None:
        """Everybody leaves with nobody's help: nothing but gifts stays behind."""
        money, admin = self.money, {"from": self.money.admin}
        warp_to(now() + THAW)
        for offence in self.model.offences:
            money.staking.unfreezeExpired(money.slasher, offence, admin)
        mine = [account for account in self.providers if account.address in self.model.provisions]
        self._each_step_after_a_thaw(mine)
        for account in self.providers:
            if idle := money.staking.idle(money.token, account):
                money.staking.withdraw(money.token, idle, account, {"from": account})
        for offence, beneficiary in self.model.payouts:
            money.staking.withdrawPayout(money.slasher, offence, beneficiary, {"from": beneficiary})
        if money.staking.burnPending(money.token):
            money.staking.flushBurn(money.token, admin)
        assert money.token.balanceOf(money.staking) == self.gifts

    def _each_step_after_a_thaw(self, providers: list[Any]) -> None:
        money = self.money
        for account in providers:
            if money.provision_of(account)["retiredAt"] == 0:
                money.staking.retire(money.pool, {"from": account})
        warp_to(now() + THAW)
        for account in providers:
            if money.provision_of(account)["thawing"]:
                money.staking.completeThaw(money.pool, {"from": account})
            if rest := money.provision_of(account)["active"]:
                money.staking.thaw(money.pool, rest, {"from": account})
        warp_to(now() + THAW)
        for account in providers:
            if money.provision_of(account)["thawing"]:
                money.staking.completeThaw(money.pool, {"from": account})


def test_staking_randomActions_followTheModel(state_machine: Any) -> None:
    state_machine(StakingMachine, deploy(), settings={"max_examples": 5, "stateful_step_count": 4})
