from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.protocol.errors import StorageError
from millpond.storage import (
    BlockTamperedError,
    Budget,
    BudgetExceededError,
    DagError,
    MemoryStore,
    add_bytes,
    cid_of,
    cid_to_bytes,
    export_car,
    import_car,
    list_directory,
    read_bytes,
)
from millpond.storage.car import decode_header, encode_header
from millpond.storage.unixfs import Layout

MIB = 1024 * 1024
SMALL = Layout(chunk_bytes=4, width=3)


async def car_of(data: bytes) -> tuple[str, bytes]:
    store, out = MemoryStore(8 * MIB), io.BytesIO()
    cid = await add_bytes(store, data, layout=SMALL)
    await export_car(store, cid, out)
    return cid, out.getvalue()


async def test_car_export_then_import_gives_the_content(store: Any) -> None:
    data = os.urandom(500)
    cid, car = await car_of(data)
    assert await import_car(store, io.BytesIO(car)) == [cid]
    assert await read_bytes(store, cid) == data


async def test_car_export_has_each_block_once() -> None:
    _, car = await car_of(b"same" * 200)
    assert car.count(cid_to_bytes(cid_of(b"same")) + b"same") == 1


def test_car_header_is_the_known_one() -> None:
    """The bytes go-car and @ipld/car write for one root."""
    head = bytes.fromhex("a265726f6f747381d82a58250001551220")
    assert encode_header([cid_of(b"")])[: len(head)] == head
    assert encode_header([cid_of(b"")])[-9:] == b"gversion\x01"


async def test_car_made_by_another_implementation_is_read_and_made_again(memory: MemoryStore) -> None:
    vector = json.loads((Path(__file__).parents[2] / "vectors" / "unixfs.json").read_text())["car"]
    made = bytes.fromhex(vector["hex"])
    assert await import_car(memory, io.BytesIO(made)) == [vector["root"]]
    assert {link.name for link in await list_directory(memory, vector["root"])} == {"README", "src"}
    out = io.BytesIO()
    await export_car(memory, vector["root"], out)
    assert out.getvalue() == made


@pytest.mark.parametrize(
    "alter",
    [
        lambda head: head.replace(b"version\x01", b"version\x02"),
        lambda head: head.replace(b"roots", b"rootz"),
        lambda head: head.replace(b"\xd8\x2a", b"\xd8\x2b"),
        lambda head: head + b"\x00",
        lambda head: head[:-1],
        lambda head: b"",
    ],
)
def test_car_header_in_another_form_is_refused(alter: Callable[[bytes], bytes]) -> None:
    with pytest.raises(DagError):
        decode_header(alter(encode_header([cid_of(b"")])))


@pytest.mark.parametrize("count", [0, 1, 2, 23])
def test_car_header_any_number_of_roots_round_trips(count: int) -> None:
    roots = [cid_of(bytes([i])) for i in range(count)]
    assert decode_header(encode_header(roots)) == roots


async def test_O17_car_with_any_content_byte_flipped_is_refused() -> None:
    _, car = await car_of(b"0123456789")
    for position in range(len(encode_header([cid_of(b"")])) + 1, len(car)):
        damaged = bytearray(car)
        damaged[position] ^= 0x01
        with pytest.raises((BlockTamperedError, DagError, BudgetExceededError)):
            await import_car(MemoryStore(MIB), io.BytesIO(bytes(damaged)))


async def test_car_cut_inside_a_block_is_refused() -> None:
    """Three leaves and their parent: four blocks, so five clean ends, the header's included."""
    _, car = await car_of(b"0123456789")
    clean = 0
    for end in range(len(car) + 1):
        try:
            await import_car(MemoryStore(MIB), io.BytesIO(car[:end]))
        except DagError:
            continue
        clean += 1
    assert clean == 5


async def test_O18_car_over_its_budget_is_refused() -> None:
    _, car = await car_of(os.urandom(1000))
    for budget in (Budget(max_bytes=100), Budget(max_nodes=5)):
        with pytest.raises(BudgetExceededError):
            await import_car(MemoryStore(MIB), io.BytesIO(car), budget=budget)


async def test_O18_car_section_of_any_claimed_size_is_not_read_into_memory() -> None:
    header = encode_header([cid_of(b"")])
    with pytest.raises(BudgetExceededError):
        await import_car(MemoryStore(MIB), io.BytesIO(bytes([len(header)]) + header + b"\xff\xff\xff\xff\x0f"))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.booleans())
async def test_O18_car_of_any_bytes_is_typed(data: bytes, with_header: bool) -> None:
    header = encode_header([cid_of(b"")])
    stream = bytes([len(header)]) + header + data if with_header else data
    try:
        roots = await import_car(MemoryStore(MIB), io.BytesIO(stream))
    except StorageError as error:
        assert (error.exit_code, bool(error.message)) == (5, True)
    else:
        assert roots
