"""A report's frame is its journalled bytes with the signature put in."""

from __future__ import annotations

from dataclasses import replace

from millpond.protocol import wire
from millpond.protocol.ids import ZERO_ADDRESS, ZERO_BYTES32
from millpond.protocol.link import AttemptEnded, Report
from millpond.protocol.messages import Failure, SignedReceipt
from millpond.protocol.signed import Receipt
from millpond.protocol.signing import Domain, address_of, verify
from millpond.storage.journal import Batch, MemoryJournal
from millpond_worker.agent.reports import Reports

KEY = b"\x01" * 32
DOMAIN = Domain(1, ZERO_ADDRESS)
Z = ZERO_BYTES32
BODY = AttemptEnded(
    SignedReceipt(Receipt(Z, Z, 1, Z, Z, Z, Z, Z, 1, 2, 0, 0), b"", address_of(KEY), value_cid='"signature":""'),
    b"value",
    Failure("E", '"signature":""', '{"signature":""}'),
)


async def sealed(journal: MemoryJournal) -> Reports:
    reports = Reports(journal, DOMAIN, KEY)
    reports.add(1, BODY)
    batch = Batch()
    seq = reports.write(batch)
    await journal.commit(batch)
    reports.commit(seq)
    return reports


async def test_frame_is_what_writing_the_signed_report_gives() -> None:
    frame = (await sealed(MemoryJournal())).frame(1)

    assert frame is not None
    body = wire.read(Report, frame).body
    assert isinstance(body, AttemptEnded)
    verify(body.signed.receipt, DOMAIN, body.signed.signature, address_of(KEY))
    assert replace(body, signed=replace(body.signed, signature=b"")) == BODY
    assert frame == wire.write(Report(1, body))


async def test_frame_after_a_restart_is_the_same() -> None:
    journal = MemoryJournal()
    first = (await sealed(journal)).frame(1)

    assert Reports(journal, DOMAIN, KEY).frame(1) == first
