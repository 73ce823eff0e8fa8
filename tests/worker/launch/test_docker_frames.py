"""Docker's multiplexed stream: frames joined, streams and their order kept, whatever the pieces it comes in."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from millpond_worker.launch.docker_engine import STREAM_HEADER, take_frames

WRITES = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=20)
NAMES = {1: "stdout", 2: "stderr"}


def frames(writes: list[tuple[int, bytes]]) -> bytes:
    return b"".join(STREAM_HEADER.pack(number, len(data)) + data for number, data in writes)


def joined(found: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    made: list[tuple[str, bytes]] = []
    for stream, data in found:
        if made and made[-1][0] == stream:
            made[-1] = (stream, made[-1][1] + data)
        elif data:
            made.append((stream, data))
    return made


@given(WRITES, st.lists(st.integers(0, 900), max_size=5))
def test_frames_in_any_pieces_give_every_byte_in_order(writes: list[tuple[int, bytes]], cuts: list[int]) -> None:
    data, rest, found = frames(writes), b"", []
    edges = [0, *sorted(cuts), len(data)]
    for start, end in itertools.pairwise(edges):
        got, rest = take_frames(rest + data[start:end])
        found += got
    assert rest == b""
    assert joined(found) == joined([(NAMES[number], body) for number, body in writes if body])


def test_many_lines_that_came_together_are_one_message() -> None:
    lines = [(1, b"%d\n" % i) for i in range(20_000)]
    found, rest = take_frames(frames(lines))
    assert rest == b""
    assert found == [("stdout", b"".join(data for _, data in lines))]
