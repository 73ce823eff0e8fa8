"""Who calls: envelope, nonce, rate. Cheap checks come first; a nonce is consumed only by who signed it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from millpond.protocol.envelope import HEADER_SIGNATURE, Caller, open_envelope
from millpond.protocol.ids import Address
from millpond_node.core import Core
from millpond_node.errors import RateLimitError, ReplayError

SKEW_S = 30
MAX_BUCKETS = 100_000


@dataclass(slots=True)
class Bucket:
    tokens: float
    at: float


class Buckets:
    """Token buckets by name: `rate` a second, `burst` at once. The least recently used are forgotten, as if they were full."""

    def __init__(self, rate: float, burst: float, most: int = MAX_BUCKETS) -> None:
        self._rate, self._burst, self._most = rate, burst, most
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, name: str, now: float) -> float:
        """0 when there was a token, else the seconds until there is one."""
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = Bucket(self._burst, now)
            if len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(name)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.at) * self._rate)
        bucket.at = now
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            return 0.0
        return (1 - bucket.tokens) / self._rate


class Nonces:
    """Used nonces until nothing signed with them can pass any more. Rows: `nonce`, by expiry."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._by_expiry: dict[int, set[tuple[Address, int]]] = {}
        self._floor = 0

    def consume(self, caller: Caller) -> None:
        """Raises `ReplayError` when the signer used the nonce before. Durable with the core's present batch."""
        used = self._by_expiry.setdefault(caller.expiry, set())
        if (caller.signer, caller.nonce) in used:
            raise ReplayError(f"the nonce was used before by {caller.signer}")
        used.add((caller.signer, caller.nonce))
        self._core.durable.batch.put("nonce", f"{caller.expiry:012}/{caller.signer}/{caller.nonce:x}", b"")
        self._core.durable.touch()

    def sweep(self, now: int) -> None:
        over = [expiry for expiry in self._by_expiry if expiry + SKEW_S < now]
        for expiry in over:
            del self._by_expiry[expiry]
        if over:
            self._core.durable.batch.delete_below("nonce", f"{now - SKEW_S:012}")
            self._core.durable.touch()

    def restore(self) -> None:
        for key, _ in self._core.journal.scan("nonce"):
            expiry, signer, nonce = key.split("/")
            self._by_expiry.setdefault(int(expiry), set()).add((Address(signer), int(nonce, 16)))

    def __len__(self) -> int:
        return sum(len(used) for used in self._by_expiry.values())


class Gate:
    """Every request passes: address and global rate before the signature is looked at, signer's rate after."""

    def __init__(self, core: Core) -> None:
        limits = core.config.limits
        self._core = core
        self.nonces = Nonces(core)
        self._global = Buckets(limits.rate_global, limits.burst_global)
        self._by_address = Buckets(limits.rate_per_address, limits.burst_per_address)
        self._by_signer = Buckets(limits.rate_per_signer, limits.burst_per_signer)

    def admit(self, address: str) -> None:
        """Raises `RateLimitError`."""
        self._take(self._by_address, address)
        self._take(self._global, "")

    def identify(self, headers: Mapping[str, str], method: str, path: str, body: bytes) -> Address:
        """The recovered signer. Raises `EnvelopeError`, `SignatureError`, `ReplayError`, `RateLimitError`."""
        if len(headers.get(HEADER_SIGNATURE, "")) > 200:
            headers = {}
        core = self._core
        now = core.clock.wall()
        caller = open_envelope(headers, core.envelope_domain, core.facts.node, method, path, body, now)
        self._take(self._by_signer, caller.signer)
        self.nonces.consume(caller)
        return caller.signer

    def _take(self, buckets: Buckets, name: str) -> None:
        wait = buckets.take(name, self._core.clock.monotonic())
        if wait:
            self._core.counters["rate_limited"] += 1
            raise RateLimitError("too many requests", retry_after_s=round(wait, 3))
