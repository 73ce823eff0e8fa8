"""What the agent does again and again: tick, compare chain and containers with what should be, renew offers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from millpond.protocol.errors import ChainError, LaunchError, MillpondError
from millpond.protocol.ids import Bytes32
from millpond_worker.agent.background import logged
from millpond_worker.agent.core import Agent
from millpond_worker.agent.link import Link
from millpond_worker.machine.events import Tick
from millpond_worker.machine.model import LIVE, LeaseRow, LeaseState, TxKind
from millpond_worker.offers import exposure_of, save_outstanding
from millpond_worker.stake import STAKE_REMEDY, Stake

MOST_SKEW_S = 60
log = logging.getLogger("millpond_worker")
IDLE_ROUNDS = 20
"""Leases with nothing left but a distant deadline are looked at once in so many rounds."""


class Rounds:
    def __init__(self, agent: Agent, link: Link) -> None:
        self._agent, self._parts, self._link = agent, agent.parts, link
        self._count = 0
        self._troubles: dict[Bytes32, str] = {}
        self.stake: Stake | None = None
        self.skew = 0
        self.cancelling: set[Bytes32] = set()

    async def tick_forever(self) -> None:
        while True:
            await self._parts.clock.sleep(self._parts.pace.tick)
            self._agent.post(Tick())

    async def reconcile_forever(self) -> None:
        while True:
            await self.reconcile()
            await self._parts.clock.sleep(self._parts.pace.reconcile)

    async def reconcile(self) -> None:
        """One comparison: containers against leases, leases against the chain. What fails is done again in the next."""
        self._count += 1
        try:
            await self._agent.leases.kill_orphans()
        except LaunchError as error:
            log.warning("the engine does not answer: %s", error.message)
        except Exception:
            log.exception("containers are not compared with leases")
        names = [name for name, row in self._agent.state.leases.items() if self._is_due(row)]
        try:
            await self._agent.leases.check(names)
        except Exception:
            log.exception("leases are not compared with the chain")

    async def renew_forever(self) -> None:
        while True:
            await self.renew()
            await self._parts.clock.sleep(self._until_renewal())

    def _until_renewal(self) -> float:
        """Seconds: no later than the provider's hours begin or end."""
        parts = self._parts
        rest = parts.pace.offers if parts.offers.current() else parts.pace.reconcile
        now = parts.clock.now()
        change = parts.offers.policy.next_change(now, int(rest))
        return min(rest, change - now) if change else rest

    async def renew(self) -> None:
        """Signs offers anew where they are due, or the chain's epoch moved; cancels on chain what gives more than is offered now."""
        await self._read_stake()
        offers, now = self._parts.offers, await self._chain_time()
        if offers.renew(await self._epochs(), now):
            save_outstanding(self._parts.folder, offers.outstanding)
            self._link.announce_offers()
        for device, epoch in offers.cheaper(now).items():
            if device not in self.cancelling:
                self.cancelling.add(device)
                self._agent.background.start(self._cancel(device, epoch), f"cancel offers of {device}", logged)

    async def _cancel(self, device: Bytes32, epoch: int) -> None:
        """Tried again with the next renewal where it fails."""
        try:
            await self._parts.chain.cancel_offers(device, epoch)
            log.info("the offers of device %s signed before the price rose are cancelled", device)
        except MillpondError as error:
            log.warning("older, cheaper offers of device %s are not cancelled yet: %s", device, error.message)
            return
        finally:
            self.cancelling.discard(device)
        await self.renew()

    async def _chain_time(self) -> int:
        """The newest block's time, by which the chain judges deadlines; this machine's where the chain does not answer."""
        now = self._parts.clock.now()
        try:
            head = await self._parts.chain.head()
        except ChainError:
            return now
        was, self.skew = self.skew, now - head.time
        if abs(self.skew) > MOST_SKEW_S >= abs(was):
            log.warning(
                "this machine's clock and the newest block are %d s apart: see `millpond-worker doctor`", self.skew
            )
        return head.time

    async def _read_stake(self) -> None:
        """How much of the stake is left for new leases; tells when it gets too little for what is offered."""
        parts = self._parts
        try:
            left = await parts.chain.unreserved(parts.identity.provider)
        except ChainError:
            return  # the epochs' reading tells of it
        old, self.stake = self.stake, Stake(left, exposure_of(parts.offers.templates, parts.pool.exposure_ppm))
        if not self.stake.is_enough and (old is None or old.is_enough):
            log.warning("the stake that is left is too little for the dearest lease offered: %s", STAKE_REMEDY)

    async def _epochs(self) -> Mapping[Bytes32, int]:
        devices = self._parts.offers.devices
        found = await asyncio.gather(*(self._epoch(device) for device in devices))
        return {device: epoch for device, epoch in zip(devices, found, strict=True) if epoch is not None}

    async def _epoch(self, device: Bytes32) -> int | None:
        try:
            epoch = await self._parts.chain.offer_epoch(device)
        except ChainError as error:
            if self._troubles.get(device) != error.message:
                log.warning("the epoch of device %s is not known: %s", device, error.message)
            self._troubles[device] = error.message
            return None
        self._troubles.pop(device, None)
        return epoch

    def _is_due(self, row: LeaseRow) -> bool:
        if row.state in LIVE or row.state is LeaseState.CLOSING:
            return True
        waits = row.mark(TxKind.COLLECT_FINAL)
        return waits is None or waits.is_pending or self._count % IDLE_ROUNDS == 0
