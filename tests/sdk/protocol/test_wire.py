import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.protocol import link, signed, wire
from millpond.protocol import messages as m
from millpond.protocol.ids import ZERO_BYTES32, address, bytes32

A = address("0x" + "22" * 20)
LEASE = bytes32(b"\x07" * 32)
OFFER = signed.Offer(
    A, LEASE, 1, 0, 1, 500, 1024, 1000, 512, 100, 0, 10**20, 10, 60, ZERO_BYTES32, 3600, 0, 1_700_000_000
)
RECEIPT = signed.Receipt(LEASE, LEASE, 1, LEASE, LEASE, LEASE, LEASE, LEASE, 5, 6, 0, 0)
SIGNED_OFFER = m.SignedOffer(OFFER, bytes(range(65)))
ENDED = link.AttemptEnded(m.SignedReceipt(RECEIPT, b"\xff" * 65, A, "cid"), b"\x00\xff", m.Failure("E", "m", "t"))
WORKER = [
    link.Hello(A, A, "i", "0.1", (m.DeviceEntry(LEASE, "u", "cpu", "n", 5, 2),), (SIGNED_OFFER,), "docker", 3),
    link.Offers((SIGNED_OFFER,)),
    link.Report(1, link.Ready(LEASE, 5)),
    link.Report(2, ENDED),
    link.Report(3, link.VoucherKept(LEASE, 2**127)),
    link.Report(4, link.Ended(LEASE, link.EndReason.UNPAID)),
    link.Beat(1, 2, 3),
    link.Log(LEASE, LEASE, 1, "stdout", 0, b"\x80binary"),
]
NODE = [
    link.Run(LEASE, 2, m.TaskSpec(LEASE, 0, entry="a:b", args=b"\x00\x01", inputs={"x": "cid"})),
    link.Cancel(LEASE, LEASE, 1),
    m.VoucherNote(LEASE, 10**30, b"\x01" * 65),
    link.Ack(7),
    link.Welcome(A, 0, ()),
    link.Refused("E", "m", "r"),
]


@pytest.mark.parametrize("message", WORKER, ids=lambda item: type(item).__name__)
def test_read_worker_message_of_a_written_one_is_equal(message: Any) -> None:
    assert wire.read_worker_message(wire.write(message)) == message


@pytest.mark.parametrize("message", NODE, ids=lambda item: type(item).__name__)
def test_read_node_message_of_a_written_one_is_equal(message: Any) -> None:
    assert wire.read_node_message(wire.write(message)) == message


def test_frames_of_many_messages_are_read_back_in_order() -> None:
    [frame] = wire.frames(map(wire.write, WORKER))
    assert wire.read_worker_messages(frame) == WORKER
    [frame] = wire.frames(map(wire.write, NODE))
    assert wire.read_node_messages(frame) == NODE


def test_frame_of_one_message_is_the_message() -> None:
    assert list(wire.frames([b"{}"])) == [b"{}"]
    assert wire.read_node_messages(wire.write(NODE[0])) == NODE[:1]


def test_frames_are_cut_at_their_bound() -> None:
    half = b'"' + b"x" * (wire.FRAME_BYTES // 2) + b'"'
    assert [len(frame) < wire.FRAME_BYTES + 3 for frame in wire.frames([half] * 5)] == [True] * 5


def test_array_with_one_bad_message_is_refused_as_a_whole() -> None:
    with pytest.raises(wire.WireError):
        wire.read_node_messages(b"[" + wire.write(NODE[0]) + b', {"kind": "hello"}]')


def test_write_of_an_amount_is_a_decimal_string() -> None:
    assert json.loads(wire.write(m.VoucherNote(LEASE, 10**30, b"")))["cumulative"] == "1" + "0" * 30


@given(st.binary(max_size=200))
def test_A01_read_of_any_bytes_refuses_with_a_typed_error(data: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.read_worker_message(data)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists, max_leaves=20))
def test_A01_read_of_any_json_refuses_with_a_typed_error(value: Any) -> None:
    with pytest.raises(wire.WireError):
        wire.read(m.Submit, json.dumps(value))


def test_A01_read_of_deeply_nested_json_refuses() -> None:
    with pytest.raises(wire.WireError):
        wire.read_worker_message(b"[" * 1_000_000)


def test_A01_read_of_an_oversized_message_refuses_before_parsing() -> None:
    with pytest.raises(wire.MessageTooLargeError) as caught:
        wire.read(m.Submit, b" " * 11, limit=10)

    assert caught.value.fields == {"size": 11, "limit": 10}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"seq":3', '"seq":"3"'),
        ('"seq":3', '"seq":3.5'),
        ('"seq":3', '"seq":3,"extra":1'),
        ('"cumulative":"', '"cumulative":"-'),
        ('"cumulative":"', '"cumulative":"1e'),
        ("0x0707", "0x07"),
        ("0x0707", "0xzz07"),
        ("voucher_kept", "unheard_of"),
    ],
)
def test_read_of_a_changed_message_refuses(old: str, new: str) -> None:
    text = wire.write(link.Report(3, link.VoucherKept(LEASE, 5))).decode()
    assert old in text

    with pytest.raises(wire.WireError):
        wire.read_worker_message(text.replace(old, new))


def test_read_of_many_messages_builds_no_further_adapters() -> None:
    worker, node = wire.write(link.Beat(1, 2, 3)), wire.write(link.Ack(7))
    wire.read_worker_message(worker), wire.read_node_message(node)
    before = wire.adapter.cache_info().misses
    for _ in range(3):
        wire.read_worker_message(worker), wire.read_node_message(node)

    assert wire.adapter.cache_info().misses == before
