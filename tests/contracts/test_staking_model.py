"""Random actions against Staking and its Python model, every getter compared after each."""

from typing import Any

from hypothesis import strategies as st
from models.machine import PAUSES, Machine
from models.staking import StakingModel
from money import CAP_PPM, THAW, Money, deploy, now

OFFENCES = tuple("0x" + f"{number:064x}" for number in range(1, 7))


class StakingMachine(Machine):
    st_account = st.integers(0, 1)
    st_amount = st.one_of(st.just(0), st.integers(1, 40), st.integers(1, 5_000))
    st_offence = st.integers(0, len(OFFENCES) - 1)
    st_ago = st.sampled_from((0, 1, 60, 3_600, 86_400, 20 * 86_400))
    st_payee = st.integers(0, 3)
    st_pause = st.sampled_from(PAUSES)

    def __init__(cls: Any, money: Money) -> None:  # noqa: N805
        cls.money = money
        cls.providers = (money.provider, money.stranger)
        cls.payees = (money.renter, money.challenger, money.provider, money.slasher)

    def setup(self) -> None:
        money = self.money
        self.gifts = 0
        self.model = StakingModel(money.pool.address, money.slasher.address, THAW, CAP_PPM)
        for provider in self.providers:
            money.give(provider, money.staking, 10**9)
        self.start()
        for provider in self.providers:
            self._deposit(provider, 10_000, 1)
        self._provision(money.provider, 3_000, 1)

    def _deposit(self, account: Any, amount: int, pause: int) -> None:
        self.wait(pause)
        self.step(
            lambda model: model.deposit(account.address, amount),
            lambda: self.money.staking.deposit(self.money.token, amount, {"from": account}),
        )

    def _provision(self, account: Any, amount: int, pause: int) -> None:
        money, at = self.money, self.wait(pause)
        self.step(
            lambda model: model.provision(account.address, amount, at),
            lambda: money.staking.provision(money.pool, amount, money.slasher, THAW, {"from": account}),
        )

    def rule_deposit(self, st_account: int, st_amount: int, st_pause: int) -> None:
        self._deposit(self.providers[st_account], st_amount, st_pause)

    def rule_withdraw(self, st_account: int, st_amount: int) -> None:
        account = self.providers[st_account]
        self.wait(1)
        self.step(
            lambda model: model.withdraw(account.address, st_amount),
            lambda: self.money.staking.withdraw(self.money.token, st_amount, account, {"from": account}),
        )

    def rule_provision(self, st_account: int, st_amount: int, st_pause: int) -> None:
        self._provision(self.providers[st_account], st_amount, st_pause)

    def rule_thaw(self, st_account: int, st_amount: int, st_pause: int) -> None:
        self._thaw(st_account, st_amount, st_pause)

    def rule_thaw_little(self, st_account: int, st_pause: int) -> None:
        self._thaw(st_account, 5, st_pause)

    def _thaw(self, which: int, amount: int, pause: int) -> None:
        account, at = self.providers[which], self.wait(pause)
        self.step(
            lambda model: model.thaw(account.address, amount, at),
            lambda: self.money.staking.thaw(self.money.pool, amount, {"from": account}),
        )

    def rule_complete(self, st_account: int, st_pause: int) -> None:
        account, at = self.providers[st_account], self.wait(st_pause)
        self.step(
            lambda model: model.complete(account.address, at),
            lambda: self.money.staking.completeThaw(self.money.pool, {"from": account}),
        )

    def rule_retire(self, st_account: int, st_pause: int) -> None:
        account, at = self.providers[st_account], self.wait(st_pause)
        self.step(
            lambda model: model.retire(account.address, at),
            lambda: self.money.staking.retire(self.money.pool, {"from": account}),
        )

    def rule_reserve(self, st_account: int, st_amount: int) -> None:
        account = self.providers[st_account]
        self.wait(1)
        self.step(
            lambda model: model.reserve(account.address, st_amount),
            lambda: self.money.pool.reserve(account, st_amount, {"from": self.money.admin}),
        )

    def rule_release(self, st_account: int, st_amount: int) -> None:
        account = self.providers[st_account]
        self.wait(1)
        self.step(
            lambda model: model.release(account.address, st_amount),
            lambda: self.money.pool.release(account, st_amount, {"from": self.money.admin}),
        )

    def rule_freeze(self, st_account: int, st_offence: int, st_ago: int, st_amount: int, st_pause: int) -> None:
        self._freeze(st_account, st_offence, st_ago, st_amount, st_pause)

    def rule_freeze_now(self, st_account: int, st_offence: int, st_amount: int) -> None:
        self._freeze(st_account, st_offence, 0, st_amount, 1)

    def _freeze(self, which: int, number: int, ago: int, amount: int, pause: int) -> None:
        money, offence, account, at = self.money, OFFENCES[number], self.providers[which], self.wait(pause)
        self.step(
            lambda model: model.freeze(account.address, offence, at - ago, amount, at),
            lambda: money.slasher.freeze(money.pool, account, offence, at - ago, amount, {"from": money.admin}),
        )

    def rule_unfreeze(self, st_offence: int) -> None:
        self.wait(1)
        self.step(
            lambda model: model.unfreeze(OFFENCES[st_offence]),
            lambda: self.money.slasher.unfreeze(OFFENCES[st_offence], {"from": self.money.admin}),
        )

    def rule_unfreeze_expired(self, st_offence: int, st_pause: int) -> None:
        money, offence, at = self.money, OFFENCES[st_offence], self.wait(st_pause)
        self.step(
            lambda model: model.unfreeze_expired(offence, at),
            lambda: money.staking.unfreezeExpired(money.slasher, offence, {"from": money.admin}),
        )

    def rule_slash(self, st_offence: int, st_amount: int, st_payee: int, st_ago: int, st_pause: int) -> None:
        renter, challenger = self.payees[st_payee], self.payees[1]
        split = (renter.address, st_amount // 3, challenger.address, st_ago)
        money, offence, at = self.money, OFFENCES[st_offence], self.wait(st_pause)
        self.step(
            lambda model: model.slash(offence, st_amount, split, at),
            lambda: money.slasher.slash(offence, st_amount, split, {"from": money.admin}),
        )

    def rule_withdraw_payout(self, st_offence: int, st_payee: int, st_pause: int) -> None:
        account = self.payees[st_payee % 3]
        money, offence, at = self.money, OFFENCES[st_offence], self.wait(st_pause)
        self.step(
            lambda model: model.withdraw_payout(offence, account.address, at),
            lambda: money.staking.withdrawPayout(money.slasher, offence, account, {"from": account}),
        )

    def rule_flush(self) -> None:
        self.wait(1)
        self.step(
            lambda model: model.flush(),
            lambda: self.money.staking.flushBurn(self.money.token, {"from": self.money.admin}),
        )

    def rule_donate(self) -> None:
        """A gift changes no bucket."""
        self.wait(1)
        self.money.token.mint(self.money.staking, 1, {"from": self.money.admin})
        self.gifts += 1

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
        self.now = now()
        self.wait(THAW)
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
        self.now = now()
        self.wait(THAW)
        for account in providers:
            if money.provision_of(account)["thawing"]:
                money.staking.completeThaw(money.pool, {"from": account})
            if rest := money.provision_of(account)["active"]:
                money.staking.thaw(money.pool, rest, {"from": account})
        self.now = now()
        self.wait(THAW)
        for account in providers:
            if money.provision_of(account)["thawing"]:
                money.staking.completeThaw(money.pool, {"from": account})


def test_staking_randomActions_followTheModel(state_machine: Any) -> None:
    state_machine(StakingMachine, deploy(), settings={"max_examples": 8, "stateful_step_count": 25})
