"""dag-pb, UnixFS and HAMT codecs: strict, deterministic, and never anything but a typed error."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.storage import DagError, cid_of
from millpond.storage._murmur3 import murmur3_64
from millpond.storage._protobuf import bytes_field, read_varint, varint, varint_field
from millpond.storage.dagpb import Link, Node, decode_node, encode_node
from millpond.storage.hamt import shard_directory, shard_entry
from millpond.storage.unixfs import Kind, decode_unixfs, encode_file_data

CID = cid_of(b"x")
links = st.builds(Link, st.just(CID), st.text(max_size=20).filter(str.isprintable), st.integers(0, 2**64 - 1))


@given(st.lists(links, max_size=5), st.binary(min_size=1, max_size=50))
def test_node_any_round_trips(some: list[Link], data: bytes) -> None:
    block = encode_node(some, data)
    assert decode_node(block) == Node(tuple(some), data)


def assert_read_or_typed(decode: Callable[[bytes], object], block: bytes) -> None:
    try:
        read = decode(block)
    except DagError as error:
        assert (error.exit_code, bool(error.message)) == (5, True)
    else:
        assert read is not None


@given(st.binary(max_size=300))
@settings(max_examples=500)
def test_O18_decode_any_bytes_is_typed(block: bytes) -> None:
    for decode in (decode_node, decode_unixfs):
        assert_read_or_typed(decode, block)


@given(st.data())
@settings(max_examples=500)
def test_O18_decode_damaged_node_is_typed(data: st.DataObject) -> None:
    block = bytearray(encode_node([Link(CID, "a", 1), Link(CID, "", 300)], encode_file_data(7, [3, 4])))
    block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
    assert_read_or_typed(decode_unixfs, bytes(block))


@given(st.integers(0, 2**64 - 1))
def test_varint_any_64_bit_number_round_trips(value: int) -> None:
    assert read_varint(varint(value), 0) == (value, len(varint(value)))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80\x00", b"\xff" * 9 + b"\x02", b"\xff" * 11])
def test_varint_malformed_is_refused(data: bytes) -> None:
    with pytest.raises(DagError):
        read_varint(data, 0)


FILE = varint_field(1, Kind.FILE)


@pytest.mark.parametrize(
    ("some", "data"),
    [
        ([], FILE + varint_field(3, 5)),
        ([], FILE + varint_field(4, 5) + varint_field(3, 5)),
        ([Link(CID, "", 1)], FILE + varint_field(3, 1)),
        ([Link(CID, "", 1)], FILE + bytes_field(2, b"x") + varint_field(4, 1) + varint_field(3, 2)),
        ([], FILE + FILE),
        ([], varint_field(1, 9)),
        ([], b""),
        ([], FILE + varint_field(9, 1)),
        ([], bytes_field(1, b"x")),
        ([], FILE + varint_field(2, 1)),
        ([], FILE + bytes_field(4, b"\x01")),
        ([], varint_field(1, Kind.DIRECTORY) + bytes_field(2, b"x")),
    ],
)
def test_decode_unixfs_that_contradicts_itself_is_refused(some: list[Link], data: bytes) -> None:
    with pytest.raises(DagError):
        decode_unixfs(encode_node(some, data))


LINK = bytes_field(1, bytes.fromhex("01551220") + bytes(32))


@pytest.mark.parametrize(
    "block",
    [
        bytes_field(2, b""),
        bytes_field(2, bytes_field(1, b"short")),
        bytes_field(2, LINK + LINK),
        bytes_field(2, bytes_field(2, b"name") + LINK),
        bytes_field(2, LINK + bytes_field(2, b"\xff\xfe")),
        bytes_field(2, LINK + bytes_field(3, b"1")),
        bytes_field(1, b"") + bytes_field(1, b""),
        bytes_field(3, b""),
        varint_field(1, 1),
        b"\x0d\x00\x00\x00\x00",
        b"\x0a\xff\xff\xff\xff\x0f",
    ],
)
def test_decode_node_malformed_is_refused(block: bytes) -> None:
    with pytest.raises(DagError):
        decode_node(block)


def test_murmur3_known_values() -> None:
    assert murmur3_64(b"") == 0
    assert murmur3_64(b"hello") == 0xCBD8A7B341BD9B02
    assert murmur3_64(b"The quick brown fox jumps over the lazy dog") == 0xE34BBC7BBC071B6C


@pytest.mark.parametrize("name", ["", "0", "0g", "ab", "aBname"])
def test_shard_entry_without_a_slot_label_is_refused(name: str) -> None:
    with pytest.raises(DagError):
        shard_entry(Link(CID, name, 0))


def test_shard_directory_of_one_name_twice_is_refused() -> None:
    with pytest.raises(DagError):
        shard_directory([Link(CID, "same", 1), Link(CID, "same", 1)])
