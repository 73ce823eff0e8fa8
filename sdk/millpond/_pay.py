"""Pays a lease: every tick one cumulative voucher for what has been served, signed by the lease's session key."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace

from millpond._nodeapi import NodeApi
from millpond._sessions import Session
from millpond.protocol.errors import MillpondError
from millpond.protocol.ids import Bytes32
from millpond.protocol.messages import VoucherNote
from millpond.protocol.signed import Voucher
from millpond.protocol.signing import Domain, sign
from millpond.protocol.vouchers import Meter

log = logging.getLogger(__name__)


class Payer:
    """Signs for one lease. `tick` seconds between vouchers; a node that is away for a while is paid up at the next tick."""

    def __init__(self, api: NodeApi, lease: Bytes32, session: Session, escrow: Domain, meter: Meter, tick: int) -> None:
        self._api, self._lease, self._session = api, lease, session
        self._escrow, self._meter, self._tick = escrow, meter, tick
        self._task: asyncio.Task[None] | None = None
        self.cumulative = 0

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"pay {self._lease[:10]}")

    async def stop(self) -> int:
        """Stops, and sends the voucher of the last second served; returns its amount."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._pay(least=1)
        return self.cumulative

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._tick)
            try:
                await self._follow_meter()
                await self._pay()
            except MillpondError as error:
                log.warning("voucher for %s not delivered: %s", self._lease[:10], error.message)

    async def _follow_meter(self) -> None:
        """A worker that paused or started again reports a later READY: the time between is not paid."""
        ready_at = (await self._api.lease(self._lease)).ready_at
        if ready_at > self._meter.ready_at:
            self._meter = replace(self._meter, ready_at=ready_at)

    async def _pay(self, least: int = 0) -> None:
        """`least` 1: a lease that served nothing still says so, which gives the opening deposit back."""
        due = max(self._meter.earned(int(time.time())), least)
        if due <= self.cumulative and self.cumulative:
            return
        if due == 0:
            return
        signature = sign(Voucher(self._lease, due), self._escrow, self._session.key)
        await self._api.post_voucher(VoucherNote(self._lease, due, signature))
        self.cumulative = due
