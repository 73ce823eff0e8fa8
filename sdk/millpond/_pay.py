"""Pays a lease: every tick one cumulative voucher for what has been served, signed by the lease's session key.

A worker that falls silent is paid for one tick at most beyond its last sign of life.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace

from millpond._nodeapi import NodeApi
from millpond._sessions import Session
from millpond.protocol.errors import MillpondError
from millpond.protocol.ids import Bytes32
from millpond.protocol.ladders import Ladder, amounts, sign_ladder
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
        self._seen_at = 0
        self.cumulative = 0

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"pay {self._lease[:10]}")

    async def stop(self) -> int:
        """Stops, and sends the voucher of the last second served; returns its amount."""
        await self.leave()
        await self._follow_meter()
        await self._pay(least=1)
        return self.cumulative

    async def ladder(self, horizon_s: int, *, is_until_done: bool) -> Ladder:
        """Pays up to now, and signs the vouchers of the next `horizon_s` seconds. Raises `LadderError` for too many."""
        await self._follow_meter()
        await self._pay()
        meter = self._meter
        steps = amounts(self.cumulative, meter.price_per_second, self._tick, horizon_s, meter.earned(meter.ends_at))
        return await asyncio.to_thread(
            sign_ladder, self._lease, steps, self._escrow, self._session.key, is_until_done=is_until_done
        )

    async def leave(self) -> None:
        """Stops without a last voucher: what comes is paid from elsewhere."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._tick)
            try:
                await self._follow_meter()
                await self._pay()
            except MillpondError as error:
                log.warning("voucher for %s not delivered: %s", self._lease[:10], error.message)

    async def _follow_meter(self) -> None:
        """A worker that paused or started again reports a later READY: the time between is not paid, nor is a silent worker."""
        view = await self._api.lease(self._lease)
        self._seen_at = view.worker_seen_at
        if view.ready_at > self._meter.ready_at:
            self._meter = replace(self._meter, ready_at=view.ready_at)

    async def _pay(self, least: int = 0) -> None:
        """`least` 1: a lease that served nothing still says so, which gives the opening deposit back."""
        until = int(min(time.time(), self._seen_at + self._tick))
        due = max(self._meter.earned(until), least)
        if due <= self.cumulative and self.cumulative:
            return
        if due == 0:
            return
        signature = sign(Voucher(self._lease, due), self._escrow, self._session.key)
        await self._api.post_voucher(VoucherNote(self._lease, due, signature))
        self.cumulative = due
