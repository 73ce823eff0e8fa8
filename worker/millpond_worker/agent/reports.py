"""The outbox of reports: journalled with the rows they follow from, signed when they leave, sent again until acknowledged."""

from __future__ import annotations

import asyncio
import base64
from collections import OrderedDict

from millpond.protocol import wire
from millpond.protocol.link import AttemptEnded, Report, ReportBody
from millpond.protocol.signing import Domain, sign
from millpond.storage.journal import Batch, Journal

LANE = "node"
UNSIGNED = b'"signature":""'


class Reports:
    """Every report the node has not acknowledged. `committed` is the last that may leave."""

    def __init__(self, journal: Journal, domain: Domain, key: bytes) -> None:
        self._domain, self._key = domain, key
        self._rows: OrderedDict[int, tuple[ReportBody, bytes]] = OrderedDict()
        self._unwritten: list[bytes] = []
        self._dropped = 0
        self.added = journal.outbox_next(LANE) - 1
        self.acked = self.added
        for row in journal.outbox(LANE):
            self.acked = min(self.acked, row.position - 1)
            self._rows[row.position] = wire.read(Report, row.body).body, row.body
        self.committed = self.added
        self.news = asyncio.Event()

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, seq: int, body: ReportBody) -> None:
        """Takes the next report; it may leave only after `commit`."""
        self.added = seq
        frame = wire.write(Report(seq, body))
        self._rows[seq] = body, frame
        self._unwritten.append(frame)

    def drop(self, seq: int) -> None:
        """The node has everything up to `seq`."""
        self.acked = self._dropped = max(self.acked, seq)
        while self._rows and next(iter(self._rows)) <= seq:
            self._rows.popitem(last=False)

    def write(self, batch: Batch) -> int:
        """Adds what is new to a batch; returns the last number that is durable once the batch is."""
        for body in self._unwritten:
            batch.outbox_push(LANE, body)
        self._unwritten.clear()
        if self._dropped:
            batch.outbox_ack(LANE, self._dropped)
            self._dropped = 0
        return self.added

    def commit(self, seq: int) -> None:
        if seq > self.committed:
            self.committed = seq
            self.news.set()

    def frame(self, seq: int) -> bytes | None:
        """A durable report as it travels, its receipt signed; None when there is none any more."""
        found = self._rows.get(seq)
        if found is None or seq > self.committed:
            return None
        body, frame = found
        return self._signed(body, frame) if isinstance(body, AttemptEnded) else frame

    def _signed(self, body: AttemptEnded, frame: bytes) -> bytes:
        """The frame with the signature in its place, as writing the signed report would give it. Inside a string quotes are escaped."""
        signature = base64.urlsafe_b64encode(sign(body.signed.receipt, self._domain, self._key))
        return frame.replace(UNSIGNED, b'"signature":"%b"' % signature, 1)
