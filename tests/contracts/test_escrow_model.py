"""Random actions against Escrow and its Python model, every getter compared after each."""

from typing import Any

from hypothesis import strategies as st
from models.escrow import EscrowModel, Lease
from models.machine import PAUSES, Machine
from money import BURN_PPM, CLAIM_WINDOW, DEPOSIT_SECONDS, FEE_PPM, Money, deploy, now


class EscrowMachine(Machine):
    st_account = st.integers(0, 1)
    st_amount = st.one_of(st.just(0), st.integers(1, 500_000))
    st_nonce = st.integers(0, 12)
    st_price = st.sampled_from((0, 1, 97))
    st_duration = st.sampled_from((1, 60, 3_600))
    st_pick = st.integers(0, 9)
    st_cumulative = st.one_of(st.integers(0, 5_000), st.just(2**128 - 1))
    st_pause = st.sampled_from(PAUSES)

    def __init__(cls: Any, money: Money) -> None:  # noqa: N805
        cls.money = money
        cls.renters = (money.renter, money.stranger)
        cls.parties = (*cls.renters, money.payee, money.treasury)

    def setup(self) -> None:
        self.gifts = 0
        self.model = EscrowModel(self.money.treasury.address)
        for renter in self.renters:
            self.money.give(renter, self.money.escrow, 10**9)
        self.start()
        for renter in self.renters:
            self._deposit(renter, 400_000, 1)

    def _deposit(self, account: Any, amount: int, pause: int) -> None:
        self.wait(pause)
        self.step(
            lambda model: model.deposit(account.address, amount),
            lambda: self.money.escrow.deposit(self.money.token, amount, {"from": account}),
        )

    def _pick(self, pick: int) -> str | None:
        keys = list(self.model.leases)
        return keys[pick % len(keys)] if keys else None

    def rule_deposit(self, st_account: int, st_amount: int, st_pause: int) -> None:
        self._deposit(self.renters[st_account], st_amount, st_pause)

    def rule_notice(self, st_account: int, st_amount: int, st_pause: int) -> None:
        account, at = self.renters[st_account], self.wait(st_pause)
        self.step(
            lambda model: model.notice(account.address, st_amount, at),
            lambda: self.money.escrow.noticeWithdrawal(self.money.token, st_amount, {"from": account}),
        )

    def rule_withdraw(self, st_account: int, st_pause: int) -> None:
        account, at = self.renters[st_account], self.wait(st_pause)
        self.step(
            lambda model: model.withdraw(account.address, at),
            lambda: self.money.escrow.withdraw(self.money.token, account, {"from": account}),
        )

    def rule_cancel(self, st_account: int, st_nonce: int) -> None:
        account = self.renters[st_account]
        self.wait(1)
        self.step(
            lambda model: model.cancel(account.address, st_nonce),
            lambda: self.money.escrow.cancelRequest(st_nonce, {"from": account}),
        )

    def rule_open(self, st_account: int, st_nonce: int, st_price: int, st_duration: int, st_pause: int) -> None:
        self._open(st_account, st_nonce, st_price, st_duration, st_pause)

    def rule_open_another(self, st_account: int, st_nonce: int, st_pause: int) -> None:
        self._open(st_account, st_nonce, 97, 60, st_pause)

    def _open(self, which: int, nonce: int, price: int, duration: int, pause: int) -> None:
        renter, money, at = self.renters[which], self.money, self.wait(pause)
        request = money.request(nonce, renter=renter.address)
        arguments = (
            tuple(request.values()),
            money.signed(request, renter),
            tuple(money.terms(pricePerSecond=price, duration=duration).values()),
        )
        lease = Lease(
            renter.address, money.payee.address, at, price, duration, DEPOSIT_SECONDS, FEE_PPM, BURN_PPM, CLAIM_WINDOW
        )
        tx = self.step(
            lambda model: model.open("new", lease, nonce),
            lambda: money.pool.openLease(*arguments, {"from": money.admin}),
        )
        if tx is not None:
            self.model.leases[str(tx.return_value)] = self.model.leases.pop("new")

    def rule_stop(self, st_pick: int, st_pause: int) -> None:
        key, at = self._pick(st_pick), self.wait(st_pause)
        if key is not None:
            self.step(
                lambda model: model.stop(key, at), lambda: self.money.pool.stopLease(key, {"from": self.money.admin})
            )

    def rule_collect(self, st_pick: int, st_cumulative: int, st_pause: int) -> None:
        self._collect(st_pick, st_cumulative, st_pause)

    def rule_collect_soon(self, st_pick: int, st_cumulative: int) -> None:
        self._collect(st_pick, st_cumulative, 7)

    def _collect(self, pick: int, cumulative: int, pause: int) -> None:
        key, at = self._pick(pick), self.wait(pause)
        if key is not None:
            self.step(
                lambda model: model.collect(key, cumulative, at), lambda: self.money.collect(key, cumulative)
            )

    def rule_collect_many(self, st_pick: int, st_cumulative: int, st_pause: int) -> None:
        key, other, at = self._pick(st_pick), self._pick(st_pick + 1), self.wait(st_pause)
        if key is None or other is None:
            return
        pairs = [(key, st_cumulative), (other, st_cumulative // 2), (key, st_cumulative // 2)]
        claims = [(self.money.pool, lease, sum_, self.money.voucher(lease, sum_)) for lease, sum_ in pairs]
        self.step(
            lambda model: model.collect_many(pairs, at),
            lambda: self.money.escrow.collectMany(claims, {"from": self.money.stranger}),
        )

    def rule_settle(self, st_pick: int, st_pause: int) -> None:
        key, at = self._pick(st_pick), self.wait(st_pause)
        if key is not None:
            self.step(
                lambda model: model.settle(key, at),
                lambda: self.money.escrow.settle(self.money.pool, key, {"from": self.money.stranger}),
            )

    def rule_settle_early(self, st_pick: int, st_pause: int) -> None:
        key, at = self._pick(st_pick), self.wait(st_pause)
        if key is not None:
            self.step(
                lambda model: model.settle_early(key, at),
                lambda: self.money.pool.settleEarly(key, {"from": self.money.admin}),
            )

    def rule_withdraw_owed(self, st_pick: int) -> None:
        account = self.parties[st_pick % len(self.parties)]
        self.wait(1)
        self.step(
            lambda model: model.withdraw_owed(account.address),
            lambda: self.money.escrow.withdrawOwed(self.money.token, account, {"from": self.money.admin}),
        )

    def rule_flush(self) -> None:
        self.wait(1)
        self.step(
            lambda model: model.flush(),
            lambda: self.money.escrow.flushBurn(self.money.token, {"from": self.money.admin}),
        )

    def rule_donate(self) -> None:
        """A gift changes no bucket; the model counts it as neither in nor out."""
        self.wait(1)
        self.money.token.mint(self.money.escrow, 1, {"from": self.money.admin})
        self.gifts += 1

    def invariant_getters(self) -> None:
        money, model, escrow = self.money, self.model, self.money.escrow
        for party in self.parties:
            assert money.free(party) == model.free[party.address]
            assert money.owed(party) == model.owed[party.address]
            assert escrow.noticed(money.token, party) == model.noticed[party.address]
        assert escrow.burnPending(money.token) == model.burn_pending
        assert model.balance == model.buckets
        assert money.token.balanceOf(escrow) == model.balance + self.gifts

    def invariant_leases(self) -> None:
        time = now()
        for key, lease in self.model.leases.items():
            account = self.money.escrow.leaseAccount(self.money.pool, key)
            stopped_after = 0 if lease.stopped_at is None else lease.stopped_at - lease.opened_at + 1
            assert account["payer"] == lease.payer
            assert account["openedAt"] == lease.opened_at
            assert account["stoppedAfter"] == stopped_after
            assert account["collected"] == lease.collected
            assert account["accrued"] == lease.accrued(time)
            assert account["isSettled"] == lease.is_settled
            assert account["isDepositReturned"] == (lease.collected > 0)

    def teardown(self) -> None:
        """Everybody leaves with nobody's help: nothing but gifts stays behind."""
        self.wait(60 * 86_400)
        money, admin = self.money, {"from": self.money.admin}
        for key, lease in self.model.leases.items():
            if not lease.is_settled:
                money.escrow.settle(money.pool, key, admin)
        for renter in self.renters:
            if money.free(renter):
                money.escrow.noticeWithdrawal(money.token, 2**256 - 1, {"from": renter})
        self.now = now()
        self.wait(900)
        for party in self.parties:
            if money.free(party):
                money.escrow.withdraw(money.token, party, {"from": party})
            if money.owed(party):
                money.escrow.withdrawOwed(money.token, party, admin)
        if money.escrow.burnPending(money.token):
            money.escrow.flushBurn(money.token, admin)
        assert money.token.balanceOf(money.escrow) == self.gifts


def test_escrow_randomActions_followTheModel(state_machine: Any) -> None:
    state_machine(EscrowMachine, deploy(), settings={"max_examples": 8, "stateful_step_count": 25})
