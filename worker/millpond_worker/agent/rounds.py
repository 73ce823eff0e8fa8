"""What the agent does again and again: tick, compare chain and containers with what should be, renew offers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from millpond.protocol.errors import ChainError, LaunchError
from millpond.protocol.ids import Bytes32
from millpond_worker.agent.core import Agent
from millpond_worker.agent.link import Link
from millpond_worker.machine.events import Tick
from millpond_worker.machine.model import LIVE, LeaseRow, LeaseState, TxKind
from millpond_worker.offers import exposure_of
from millpond_worker.stake import STAKE_REMEDY, Stake

log = logging.getLogger("millpond_worker")
IDLE_ROUNDS = 20
"""Leases with nothing left but a distant deadline are looked at once in so many rounds."""


class Rounds:
    def __init__(self, agent: Agent, link: Link) -> None:
        self._agent, self._parts, self._link = agent, agent.parts, link
        self._count = 0
        self._troubles: dict[Bytes32, str] = {}
        self.stake: Stake | None = None

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
            await self._parts.clock.sleep(
                self._parts.pace.offers if self._parts.offers.current() else self._parts.pace.reconcile
            )

    async def renew(self) -> None:
        """Signs offers anew where they are due, or the chain's epoch moved."""
        await self._read_stake()
        if self._parts.offers.renew(await self._epochs(), self._parts.clock.now()):
            self._link.announce_offers()

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
