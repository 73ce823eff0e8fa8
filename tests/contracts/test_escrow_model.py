"""Random actions against Escrow and its Python model, every getter compared after each burst."""

from typing import Any

from brownie.test import strategy
from models.escrow import EscrowModel, Lease
from models.machine import Machine
from money import BURN_PPM, CLAIM_WINDOW, DEPOSIT_SECONDS, FEE_PPM, Money, deploy, now, warp_to

AMOUNTS = (0, 1, 5_000, 100_000, 500_000)
CUMULATIVES = (0, 1, 49, 50, 1_000, 5_000, 2**128 - 1)


class EscrowMachine(Machine):
    st_seed = strategy("uint32")
    actions = (
        (2, "deposit"),
        (2, "notice"),
        (2, "withdraw"),
        (1, "cancel"),
        (6, "open"),
        (3, "resize"),
        (3, "stop"),
        (8, "collect"),
        (2, "collect_many"),
        (4, "settle"),
        (2, "settle_early"),
        (2, "withdraw_owed"),
        (2, "sweep"),
        (1, "flush"),
        (1, "donate"),
    )

    def __init__(cls: Any, money: Money) -> None:  # noqa: N805
        cls.money = money
        cls.renters = (money.renter, money.stranger)
        cls.parties = (*cls.renters, money.payee, money.treasury)

    def setup(self) -> None:
        for renter in self.renters:
            self.money.give(renter, self.money.escrow, 10**9)
        self.start(EscrowModel(self.money.treasury.address))
        for _ in range(4):
            self.deposit()
        for _ in range(3):
            self.open()

    def rule_burst(self, st_seed: int) -> None:
        self.burst(st_seed)

    def deposit(self) -> None:
        account, amount = self.random.choice(self.renters), self.random.choice(AMOUNTS)
        self.wait()
        escrow = self.money.escrow
        self.step(
            lambda model: model.deposit(account.address, amount),
            *(escrow.deposit, self.money.token, amount),
            sender=account,
        )

    def notice(self) -> None:
        account, amount, at = self.random.choice(self.renters), self.random.choice(AMOUNTS), self.wait()
        self.step(
            lambda model: model.notice(account.address, amount, at),
            *(self.money.escrow.noticeWithdrawal, self.money.token, amount),
            sender=account,
        )

    def withdraw(self) -> None:
        account, at = self.random.choice(self.renters), self.wait()
        self.step(
            lambda model: model.withdraw(account.address, at),
            *(self.money.escrow.withdraw, self.money.token, account),
            sender=account,
        )

    def cancel(self) -> None:
        account, nonce = self.random.choice(self.renters), self.random.randrange(30)
        self.wait()
        self.step(
            lambda model: model.cancel(account.address, nonce), self.money.escrow.cancelRequest, nonce, sender=account
        )

    def open(self) -> None:
        money, renter, nonce, at = self.money, self.random.choice(self.renters), self.random.randrange(30), self.wait()
        price, duration = self.random.choice((0, 1, 97)), self.random.choice((1, 60, 3_600))
        request = money.request(nonce, renter=renter.address)
        lease = Lease(
            renter.address, money.payee.address, at, price, duration, DEPOSIT_SECONDS, FEE_PPM, BURN_PPM, CLAIM_WINDOW
        )
        returned = self.step(
            lambda model: model.open("new", lease, nonce),
            money.pool.openLease,
            tuple(request.values()),
            money.signed(request, renter),
            tuple(money.terms(pricePerSecond=price, duration=duration).values()),
            sender=money.admin,
        )
        if returned is not None:
            self.model.leases[str(returned)] = self.model.leases.pop("new")

    def pick(self) -> str | None:
        """Any lease, the newer the likelier."""
        keys = list(self.model.leases)
        return self.random.choice(keys[-4:] if self.random.random() < 0.7 else keys) if keys else None

    def resize(self) -> None:
        money, key, at = self.money, self.pick(), self.wait()
        if key is None:
            return
        lease, price = self.model.leases[key], self.random.choice((0, 1, 50, 200))
        payer = next(renter for renter in self.renters if renter.address == lease.payer)
        resize = money.resize(key, price, len(lease.earlier))
        self.step(
            lambda model: model.resize(key, price, at),
            *(money.pool.resizeLease, tuple(resize.values()), money.signed_resize(resize, payer)),
            sender=money.admin,
        )

    def stop(self) -> None:
        key, at = self.pick(), self.wait()
        if key is not None:
            self.step(lambda model: model.stop(key, at), self.money.pool.stopLease, key, sender=self.money.admin)

    def collect(self) -> None:
        money, key, at = self.money, self.pick(), self.wait()
        if key is not None:
            cumulative = self.random.choice((*CUMULATIVES, self.model.leases[key].collected + 7))
            self.step(
                lambda model: model.collect(key, cumulative, at),
                *(money.escrow.collect, money.pool, key, cumulative, money.voucher(key, cumulative)),
                sender=money.stranger,
            )

    def collect_many(self) -> None:
        money, keys, at = self.money, (self.pick(), self.pick(), self.pick()), self.wait()
        pairs = [(key, self.random.choice(CUMULATIVES)) for key in keys if key is not None]
        claims = [(money.pool, key, most, money.voucher(key, most)) for key, most in pairs]
        self.step(lambda model: model.collect_many(pairs, at), money.escrow.collectMany, claims, sender=money.stranger)

    def settle(self) -> None:
        money, key, at = self.money, self.pick(), self.wait()
        if key is not None:
            self.step(lambda model: model.settle(key, at), money.escrow.settle, money.pool, key, sender=money.stranger)

    def settle_early(self) -> None:
        money, key, at = self.money, self.pick(), self.wait()
        if key is not None:
            self.step(lambda model: model.settle_early(key, at), money.pool.settleEarly, key, sender=money.admin)

    def withdraw_owed(self) -> None:
        account, escrow = self.random.choice(self.parties), self.money.escrow
        self.wait()
        self.step(
            lambda model: model.withdraw_owed(account.address),
            *(escrow.withdrawOwed, self.money.token, account),
            sender=self.money.admin,
        )

    def sweep(self) -> None:
        self.wait()
        money = self.money
        self.step(lambda model: model.sweep(), money.escrow.sweep, money.pool, money.token, sender=money.stranger)

    def flush(self) -> None:
        self.wait()
        self.step(lambda model: model.flush(), self.money.escrow.flushBurn, self.money.token, sender=self.money.admin)

    def donate(self) -> None:
        """A gift changes no bucket."""
        self.money.token.mint(self.money.escrow, 1, {"from": self.money.admin})
        self.gifts += 1
        self.now = now()

    def invariant_getters(self) -> None:
        money, model, escrow = self.money, self.model, self.money.escrow
        for party in self.parties:
            assert money.free(party) == model.free[party.address]
            assert money.owed(party) == model.owed[party.address]
            assert escrow.noticed(money.token, party) == model.noticed[party.address]
        for nonce in range(30):
            assert escrow.isNonceUsed(money.renter, nonce) == ((money.renter.address, nonce) in model.nonces)
        assert money.takings() == (model.fees, model.burns)
        assert escrow.burnPending(money.token) == model.burn_pending
        assert model.balance == model.buckets
        assert money.token.balanceOf(escrow) == model.balance + self.gifts

    def invariant_leases(self) -> None:
        money, time = self.money, now()
        for key, lease in self.model.leases.items():
            account = money.escrow.leaseAccount(money.pool, key)
            stopped_after = 0 if lease.stopped_at is None else lease.stopped_at - lease.opened_at + 1
            assert account["payer"] == lease.payer
            assert account["openedAt"] == lease.opened_at
            assert account["stoppedAfter"] == stopped_after
            assert account["collected"] == lease.collected
            assert account["pricePerSecond"] == lease.price
            assert money.escrow.resizesOf(money.pool, key) == len(lease.earlier)
            assert account["accrued"] == lease.accrued(time) == money.escrow.accruedOf(money.pool, key)
            assert account["isSettled"] == lease.is_settled
            assert account["isDepositReturned"] == (lease.collected > 0)
            for most in (50, 2**128 - 1):
                assert money.escrow.collectable(money.pool, key, most) == lease.collectable(most, time)

    def teardown(self) -> None:
        """Everybody leaves with nobody's help: nothing but gifts stays behind."""
        money, admin = self.money, {"from": self.money.admin}
        warp_to(now() + 60 * 86_400)
        for key, lease in self.model.leases.items():
            if not lease.is_settled:
                money.escrow.settle(money.pool, key, admin)
        for renter in self.renters:
            if money.free(renter):
                money.escrow.noticeWithdrawal(money.token, 2**256 - 1, {"from": renter})
        warp_to(now() + 900)
        if sum(money.takings()):
            money.escrow.sweep(money.pool, money.token, admin)
        for party in self.parties:
            if money.free(party):
                money.escrow.withdraw(money.token, party, {"from": party})
            if money.owed(party):
                money.escrow.withdrawOwed(money.token, party, admin)
        if money.escrow.burnPending(money.token):
            money.escrow.flushBurn(money.token, admin)
        assert money.token.balanceOf(money.escrow) == self.gifts


def test_escrow_randomActions_followTheModel(state_machine: Any) -> None:
    state_machine(EscrowMachine, deploy(), settings={"max_examples": 5, "stateful_step_count": 3})
