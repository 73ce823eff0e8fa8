"""JSON-RPC to one server, or to several of one chain as if they were one: failover, and never older than already read.

One server's answers are believed. Of several, ordinary reads stick to one while it is well; a signed transaction goes to all of them;
reads that move money need a majority (`millpond.chain.agreement`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from millpond.chain import rpc_rules as rules
from millpond.chain.endpoint import MAX_BATCH, Endpoint, RpcCall, hex_bytes, quantity
from millpond.chain.errors import RpcBehindError, RpcResponseError, RpcUnreachableError
from millpond.chain.keys import DEVELOPMENT_CHAIN_ID
from millpond.chain.rpc_rules import Floor, Health, RpcPolicy
from millpond.protocol.errors import ChainError

__all__ = ["MAX_BATCH", "Rpc", "RpcCall", "hex_bytes", "quantity", "split_urls"]

DEFAULT_TIMEOUT_S = 10.0
MAX_RESPONSE_BYTES = 64 << 20
_HEAD: RpcCall = ("eth_blockNumber", ())
_LOOK_AGAIN_S = 0.2

log = logging.getLogger("millpond.chain")


def split_urls(urls: str | Sequence[str]) -> tuple[str, ...]:
    """URLs from a list or a text with commas, each once, in order."""
    parts = urls.split(",") if isinstance(urls, str) else urls
    return tuple(dict.fromkeys(part.strip() for part in parts if part.strip())) or ("",)


class Rpc:
    """A chain's servers, by their URLs (a list, or one text with commas). `chain_id` given: servers of another chain are refused.

    Raises `RpcUnreachableError` when none answers in time, `RpcResponseError` when the answer is an error or no JSON-RPC,
    `WrongChainError` when the chain is another, `RpcBehindError` when none has the block that was read before. Safe to share
    between tasks of one event loop.
    """

    _endpoints: tuple[Endpoint, ...] = ()

    def __init__(
        self,
        urls: str | Sequence[str],
        timeout_s: float = DEFAULT_TIMEOUT_S,
        *,
        chain_id: int | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        policy: RpcPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.urls = split_urls(urls)
        self.url = ",".join(self.urls)
        self.policy = policy or RpcPolicy()
        self._endpoints = tuple(
            Endpoint(url, timeout_s, chain_id=chain_id, max_response_bytes=max_response_bytes) for url in self.urls
        )
        self._healths = [Health(url) for url in self.urls]
        self._clock = clock
        self._current = 0
        self._floor = Floor()
        self._agreed_floor = Floor()
        self._probe: asyncio.Task[None] | None = None
        self._probed_at = float("-inf")

    @property
    def is_many(self) -> bool:
        """Whether there is more than one server, so that majorities mean something."""
        return len(self._endpoints) > 1

    @property
    def healths(self) -> tuple[Health, ...]:
        """What is known of each server, in the order of the URLs."""
        return tuple(self._healths)

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def connect(self) -> int:
        """The chain id; raises `WrongChainError` when another was expected."""
        if not self.is_many:
            return await self._endpoints[0].connect()
        chain_id = next((item.expected_chain_id for item in self._endpoints if item.expected_chain_id), None)
        if chain_id is None:
            chain_id = await self._first_chain_id()
            for endpoint in self._endpoints:
                endpoint.expected_chain_id = chain_id
        return chain_id

    async def call(self, method: str, *params: Any) -> Any:
        """The result of one call."""
        return (await self.batch([(method, params)]))[0]

    async def batch(self, calls: Sequence[RpcCall]) -> list[Any]:
        """Results in the order of `calls`, split into requests of at most 100 calls; the first error is raised."""
        results = await self.batch_settled(calls)
        for result in results:
            if isinstance(result, RpcResponseError):
                raise result
        return results

    async def batch_settled(self, calls: Sequence[RpcCall]) -> list[Any]:
        """Like `batch`, but a call's error is returned in its place."""
        if not self.is_many:
            return await self._endpoints[0].settle(calls)
        await self.connect()
        await self._look_around()
        started = self._clock()
        while True:
            try:
                return await self._one_of_all(calls)
            except RpcBehindError:
                if not self._forgets_floor() and self._clock() - started >= self.policy.catch_up_s:
                    raise
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def ask_all(
        self, calls: Sequence[RpcCall], quorum: int = 1, within_s: float | None = None
    ) -> dict[int, list[Any]]:
        """Each server's own results, by its place; those without an answer are left out. The resting are asked only for a quorum."""
        await self.connect()
        now = self._clock()
        awake = [i for i, health in enumerate(self._healths) if not health.is_resting(now)]
        found = await self._ask_many(awake, calls, within_s)
        if len(found) < quorum:
            found |= await self._ask_many([i for i in range(len(self._endpoints)) if i not in awake], calls, within_s)
        return found

    async def broadcast(self, raw: bytes) -> None:
        """Hands a signed transaction to every server; raises the first one's error when none takes it."""
        method, data = "eth_sendRawTransaction", "0x" + raw.hex()
        if not self.is_many:
            await self.call(method, data)
            return
        answers = await self.ask_all([(method, (data,))], within_s=self.policy.send_s)
        if not answers:
            raise self._nobody(method)
        refusals = [answer for [answer] in answers.values() if isinstance(answer, RpcResponseError)]
        if len(refusals) == len(answers):
            raise refusals[0]

    def distrust(self, index: int, reason: str) -> None:
        """The server contradicted the majority: it rests like one that failed."""
        self._fail(index, reason)

    def wake(self) -> None:
        """Ends every server's rest: one that failed a moment ago may be the vote that is missing."""
        self._healths = [replace(health, rests_until=float("-inf")) for health in self._healths]

    def admit(self, number: int) -> None:
        """Notes a block that the majority agreed on; raises `RpcBehindError` when it is older than one before."""
        if number >= self._agreed_floor.number or self._is_gone(self._agreed_floor):
            self._agreed_floor = Floor(number)
            return
        self._agreed_floor = rules.missed(self._agreed_floor, self._clock())
        seen = self._agreed_floor.number
        raise RpcBehindError(
            f"the RPC servers agree on block {number}, and did on block {seen}", head=number, seen=seen
        )

    async def close(self) -> None:
        if self._probe is not None:
            self._probe.cancel()
            with suppress(asyncio.CancelledError):
                await self._probe
        for endpoint in self._endpoints:
            await endpoint.close()

    # SEVERAL SERVERS

    async def _first_chain_id(self) -> int:
        errors: list[ChainError] = []
        for endpoint in self._endpoints:
            try:
                return await endpoint.connect()
            except ChainError as error:
                errors.append(error)
        raise errors[0]

    async def _one_of_all(self, calls: Sequence[RpcCall]) -> list[Any]:
        errors: list[ChainError] = []
        faulty: list[Any] | None = None
        for index in rules.order(self._healths, self._current, self._clock(), self.policy):
            try:
                results = await self._sticky(index, calls)
            except ChainError as error:
                errors.append(error)
                continue
            if not any(isinstance(item, RpcResponseError) and _is_fault(item) for item in results):
                self._current = index
                return results
            faulty = faulty or results
        if faulty is not None:
            return faulty
        behind = next((error for error in errors if isinstance(error, RpcBehindError)), None)
        raise behind or next((error for error in errors if isinstance(error, RpcUnreachableError)), errors[0])

    async def _sticky(self, index: int, calls: Sequence[RpcCall]) -> list[Any]:
        """One server's results, if it has all that was read before. The head is asked first: what follows is not older."""
        results = await self._ask(index, [_HEAD, *calls])
        head = self._healths[index].head
        if head < self._floor.number:
            raise RpcBehindError(
                f"the RPC {self.urls[index]} is at block {head}, block {self._floor.number} was read already",
                url=self.urls[index],
                head=head,
                seen=self._floor.number,
            )
        self._floor = rules.raised(self._floor, _newest(calls, results[1:], head))
        return results[1:]

    async def _ask(self, index: int, calls: Sequence[RpcCall]) -> list[Any]:
        """Results of one server, its health noted. With `_HEAD` first, its head too."""
        started = self._clock()
        try:
            results = await self._endpoints[index].settle(calls)
            head = quantity(results[0], _HEAD[0]) if calls[0] is _HEAD else self._healths[index].head
        except ChainError as error:
            self._fail(index, error.message)
            raise
        before = self._healths[index]
        self._healths[index] = rules.answered(before, head, self._clock() - started)
        if before.failures:
            log.info("the RPC %s answers again", self.urls[index])
        return results

    async def _ask_in_time(self, index: int, calls: Sequence[RpcCall], within_s: float | None) -> list[Any]:
        try:
            async with asyncio.timeout(within_s):
                return await self._ask(index, calls)
        except TimeoutError as error:
            self._fail(index, f"did not answer in {within_s} s")
            raise RpcUnreachableError(f"the RPC {self.urls[index]} is slow", url=self.urls[index]) from error

    async def _ask_many(
        self, indices: Sequence[int], calls: Sequence[RpcCall], within_s: float | None
    ) -> dict[int, list[Any]]:
        results = await asyncio.gather(
            *(self._ask_in_time(index, [_HEAD, *calls], within_s) for index in indices), return_exceptions=True
        )
        found: dict[int, list[Any]] = {}
        for index, result in zip(indices, results, strict=True):
            if isinstance(result, BaseException) and not isinstance(result, ChainError):
                raise result
            if isinstance(result, list):
                found[index] = result[1:]
        return found

    async def _look_around(self) -> None:
        """Asks all for their heads now and then, in the background; the first time before anything else."""
        if self._probe is None or (self._probe.done() and self._clock() - self._probed_at >= self.policy.probe_s):
            is_first = self._probe is None
            self._probed_at = self._clock()
            self._probe = asyncio.create_task(self._probe_all(), name="RPC probe")
            if is_first:
                await asyncio.shield(self._probe)

    async def _probe_all(self) -> None:
        now = self._clock()
        await asyncio.gather(*(self._probe_one(i) for i, item in enumerate(self._healths) if not item.is_resting(now)))

    async def _probe_one(self, index: int) -> None:
        with suppress(ChainError):  # noted as its health
            await self._ask_in_time(index, [_HEAD], self.policy.probe_timeout_s)

    def _fail(self, index: int, reason: str) -> None:
        before = self._healths[index]
        self._healths[index] = rules.failed(before, reason, self._clock(), self.policy)
        if not before.failures:
            log.warning("the RPC %s is left out for now: %s", self.urls[index], reason)

    def _forgets_floor(self) -> bool:
        """After nobody had the newest block read: whether to go on from what the servers have now."""
        if self._is_gone(self._floor):
            self._floor = Floor()
            return True
        self._floor = rules.missed(self._floor, self._clock())
        return False

    def _is_gone(self, floor: Floor) -> bool:
        is_development = self._endpoints[0].expected_chain_id == DEVELOPMENT_CHAIN_ID
        return rules.is_gone(floor, self._clock(), self.policy, is_development)

    def _nobody(self, method: str) -> ChainError:
        reasons = "; ".join(f"{health.url}: {health.reason}" for health in self._healths)
        return RpcUnreachableError(f"none of {len(self.urls)} RPC servers answers ({reasons})", method=method)


def _is_fault(error: RpcResponseError) -> bool:
    return rules.is_servers_fault(error.fields.get("code"), error.message)


def _newest(calls: Sequence[RpcCall], results: Sequence[Any], head: int) -> int:
    """The newest block these results are of, as far as they tell."""
    numbers = [head]
    for (method, _), result in zip(calls, results, strict=True):
        value = result.get("number") if method == "eth_getBlockByNumber" and isinstance(result, dict) else result
        if method in {"eth_blockNumber", "eth_getBlockByNumber"} and isinstance(value, str):
            with suppress(RpcResponseError):
                numbers.append(quantity(value, method))
    return max(numbers)
