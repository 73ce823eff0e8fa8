import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.protocol import merkle
from millpond.protocol.hashing import keccak256

leaves = st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=40)


@given(leaves, st.data())
def test_climb_with_its_own_proof_reaches_the_root(rows: list[bytes], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(rows) - 1))

    assert merkle.climb(rows[index], index, len(rows), merkle.proof(rows, index)) == merkle.root(rows)


@given(leaves, st.data())
def test_climb_with_a_changed_bit_misses_the_root(rows: list[bytes], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(rows) - 1))
    bit = data.draw(st.integers(0, 255))
    forged = (int.from_bytes(rows[index], "big") ^ (1 << bit)).to_bytes(32, "big")

    assert merkle.climb(forged, index, len(rows), merkle.proof(rows, index)) != merkle.root(rows)


def test_root_of_three_leaves_carries_the_odd_one_up() -> None:
    a, b, c = (bytes([i]) * 32 for i in range(3))

    inner = keccak256(b"\x01" + a + b)
    assert merkle.root([a, b, c]) == keccak256(b"\x01" + inner + c)


def test_leaf_and_node_are_hashed_apart() -> None:
    a, b = b"\x01" * 32, b"\x02" * 32

    assert merkle.leaf(a + b) != merkle.node(a, b)


@pytest.mark.parametrize("change", [lambda proof: proof[:-1], lambda proof: [*proof, bytes(32)]])
def test_climb_with_a_proof_of_another_length_refuses(change) -> None:  # type: ignore[no-untyped-def]
    rows = [bytes([i]) * 32 for i in range(5)]

    with pytest.raises(merkle.MerkleError):
        merkle.climb(rows[1], 1, 5, change(merkle.proof(rows, 1)))


@pytest.mark.parametrize("index", [-1, 5])
def test_climb_with_an_index_outside_the_tree_refuses(index: int) -> None:
    with pytest.raises(merkle.MerkleError) as caught:
        merkle.climb(bytes(32), index, 5, [])

    assert caught.value.fields == {"index": index, "count": 5}


def test_root_of_nothing_refuses() -> None:
    with pytest.raises(merkle.MerkleError):
        merkle.root([])
