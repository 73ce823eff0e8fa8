"""The value codec: vectors, round trips, and bytes that are no value."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.protocol import values
from millpond.protocol.values import Budget, ValueCodecError, decode, encode, encode_bytes

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "values.json").read_text())

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    | st.binary(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner, max_size=4)
        | st.dictionaries(st.integers() | st.binary(max_size=4) | st.tuples(st.integers()), inner, max_size=4)
    ),
    max_leaves=20,
)


def same(left: object, right: object) -> bool:
    """Equality that tells types and signs apart and takes nan as equal to itself."""
    return type(left) is type(right) and repr(left) == repr(right)


def raw(tree: str, lengths: str = "[]", tail: bytes = b"") -> bytes:
    """An encoded value with any header text."""
    text = f'{{"v":1,"n":{lengths},"x":{tree}}}'.encode()
    text += b" " * (-(4 + len(text)) % 16)
    return len(text).to_bytes(4, "little") + text + tail


@pytest.mark.parametrize("vector", VECTORS["valid"], ids=lambda vector: vector["name"])
def test_vector_valid_decodes_and_encodes_to_the_same_bytes(vector: dict[str, str]) -> None:
    data = bytes.fromhex(vector["hex"])
    value = decode(data)
    assert repr(value) == vector["repr"]
    assert encode_bytes(value) == data


@pytest.mark.parametrize("vector", VECTORS["invalid"], ids=lambda vector: vector["name"])
def test_vector_invalid_is_refused(vector: dict[str, str]) -> None:
    with pytest.raises(ValueCodecError):
        decode(bytes.fromhex(vector["hex"]))


@given(plain)
@settings(max_examples=200, deadline=None)
def test_round_trip_plain_value_is_the_same(value: object) -> None:
    assert same(decode(encode_bytes(value)), value)


def assert_value_or_typed(data: bytes | bytearray) -> None:
    """What is read is a value that travels on unchanged; what is refused is refused with a remedy; nothing else happens."""
    try:
        value = decode(data)
    except ValueCodecError as error:
        assert error.remedy
    else:
        assert same(decode(encode_bytes(value)), value)


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_decode_random_bytes_gives_a_value_or_a_codec_error(data: bytes) -> None:
    assert_value_or_typed(data)


@given(plain, st.data())
@settings(max_examples=300, deadline=None)
def test_decode_damaged_value_gives_a_value_or_a_codec_error(value: object, data: st.DataObject) -> None:
    damaged = bytearray(encode_bytes(value))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    assert_value_or_typed(damaged)


@given(plain)
@settings(max_examples=100, deadline=None)
def test_decode_cut_value_is_refused(value: object) -> None:
    data = encode_bytes(value)
    with pytest.raises(ValueCodecError):
        decode(data[:-1])
    with pytest.raises(ValueCodecError):
        decode(data + bytes(16))


@pytest.mark.parametrize("dtype", sorted(values.DTYPES))
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (5,), (2, 3, 4)])
def test_round_trip_array_keeps_dtype_shape_and_items(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    found = decode(encode_bytes(array))
    assert found.dtype == array.dtype
    assert found.shape == shape
    assert np.array_equal(found, array)


@pytest.mark.parametrize(
    "scalar", [np.float32(1.5), np.int64(-3), np.bool_(True), np.complex64(1 + 2j), np.float64("nan")]
)
def test_round_trip_numpy_scalar_keeps_its_type(scalar: np.generic) -> None:
    assert same(decode(encode_bytes(scalar)), scalar)


@pytest.mark.parametrize("array", [np.arange(12).reshape(3, 4).T, np.arange(10)[::-2], np.arange(4, dtype=">u4")])
def test_round_trip_array_of_other_layout_keeps_items(array: np.ndarray) -> None:
    assert np.array_equal(decode(encode_bytes(array)), array)


def test_encode_contiguous_array_is_not_copied() -> None:
    array = np.zeros(1000)
    assert any(np.shares_memory(array, np.frombuffer(piece, dtype="u1")) for piece in encode(array))


def test_decode_from_bytearray_gives_a_writable_view() -> None:
    buffer = bytearray(encode_bytes(np.zeros(4)))
    array = decode(buffer)
    array += 1
    assert np.array_equal(decode(buffer), np.ones(4))


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array(["a"]), np.array([object()]), lambda: 0, range(3), 1j])
def test_encode_unknown_type_is_refused(value: object) -> None:
    with pytest.raises(ValueCodecError) as caught:
        encode_bytes([value])
    assert caught.value.remedy


def test_encode_value_that_contains_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(ValueCodecError):
        encode_bytes(value)


@pytest.mark.parametrize("budget", [Budget(max_bytes=64), Budget(max_depth=2), Budget(max_items=3)])
def test_budget_exceeded_is_refused_both_ways(budget: Budget) -> None:
    value = [[[bytes(100)]], 1, 2]
    with pytest.raises(ValueCodecError):
        encode_bytes(value, budget)
    with pytest.raises(ValueCodecError):
        decode(encode_bytes(value), budget)


def test_decode_header_nested_beyond_the_stack_is_refused() -> None:
    script = (
        "import sys; sys.setrecursionlimit(1_000_000)\n"
        "from millpond.protocol.values import decode, ValueCodecError\n"
        "head = ('{\"v\":1,\"n\":[],\"x\":' + '[' * 100_000 + ']' * 100_000 + '}').encode()\n"
        "head += b' ' * (-(4 + len(head)) % 16)\n"
        "try: decode(len(head).to_bytes(4, 'little') + head)\n"
        "except ValueCodecError as error: print(error.message)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout.strip()) == (0, "the header is nested too deeply")


def test_decode_array_larger_than_its_buffer_is_refused() -> None:
    with pytest.raises(ValueCodecError):
        decode(raw('["a","<f8",[1000000000000,1000000000000],0]', "[16]", bytes(16)))


def test_module_without_numpy_serves_plain_values_and_names_the_cure() -> None:
    script = (
        "import sys; sys.modules['numpy'] = None\n"
        "from millpond.protocol.values import decode, encode_bytes, ValueCodecError\n"
        "assert decode(encode_bytes({'a': [1, (2.5, b'x')]})) == {'a': [1, (2.5, b'x')]}\n"
        "try: decode(bytes.fromhex(sys.argv[1]))\n"
        "except ValueCodecError as error: print(error.remedy)\n"
    )
    array = encode_bytes(np.zeros(2)).hex()
    done = subprocess.run([sys.executable, "-c", script, array], capture_output=True, text=True, check=True)
    assert "numpy" in done.stdout


def test_module_imports_nothing_heavy() -> None:
    script = (
        "import sys, millpond.protocol.values; print([m for m in ('numpy', 'pydantic', 'web3') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
