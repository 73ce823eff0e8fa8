"""What a worker's connection sends, and when."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from millpond.protocol.ids import address, bytes32
from millpond.protocol.link import Cancel
from millpond_node import sessions
from millpond_node.api.cork import MAX_HELD_BYTES, Corked
from millpond_node.sessions import Session

LEASE = bytes32(b"\x01" * 32)


@asynccontextmanager
async def written() -> AsyncIterator[tuple[Session, list[str]]]:
    session, sent = Session(address("0x" + "11" * 20), 1, "i"), list[str]()

    async def send_text(text: str) -> None:
        sent.append(text)

    writer = asyncio.create_task(session.write(send_text))
    await asyncio.sleep(0)
    yield session, sent
    session.end()
    await asyncio.wait_for(writer, 1)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(2):
        while not condition():
            await asyncio.sleep(0.005)


async def test_acknowledgements_wait_a_moment_and_the_last_stands_for_all() -> None:
    async with written() as (session, sent):
        for seq in (1, 2, 3):
            session.acknowledge(seq)
            await asyncio.sleep(0)
        assert sent == []
        await until(lambda: bool(sent))
    assert [json.loads(text) for text in sent] == [{"seq": 3, "kind": "ack"}]


async def test_acknowledgement_leaves_with_the_next_message() -> None:
    async with written() as (session, sent):
        session.acknowledge(7)
        session.send(Cancel(LEASE, LEASE, 1))
        await asyncio.sleep(0.001)
        [frame] = sent
        await asyncio.sleep(2 * sessions.ACK_S)
        assert sent == [frame]
    assert [message["kind"] for message in json.loads(frame)] == ["ack", "cancel"]


async def test_acknowledgement_of_a_session_that_ends_still_leaves() -> None:
    async with written() as (session, sent):
        session.acknowledge(9)
    assert len(sent) == 1


class Recorder(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.is_over = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.pieces.append(bytes(data))

    def is_closing(self) -> bool:
        return self.is_over

    def close(self) -> None:
        self.is_over = True

    abort = close


async def test_cork_sends_what_is_written_in_one_turn_in_one_piece() -> None:
    below = Recorder()
    corked = Corked(below, asyncio.get_running_loop())
    corked.write(b"head ")
    corked.write(b"body")
    assert below.pieces == []
    await asyncio.sleep(0)
    corked.write(b"next")
    await asyncio.sleep(0)
    assert below.pieces == [b"head body", b"next"]


async def test_cork_holds_no_more_than_its_bound() -> None:
    below = Recorder()
    corked = Corked(below, asyncio.get_running_loop())
    for _ in range(10):
        corked.write(bytes(MAX_HELD_BYTES // 2 + 1))
    assert len(below.pieces) == 5


async def test_cork_that_is_closed_sends_what_it_holds_and_aborted_drops_it() -> None:
    closed, aborted = Recorder(), Recorder()
    for below, end in ((closed, Corked.close), (aborted, Corked.abort)):
        corked = Corked(below, asyncio.get_running_loop())
        corked.write(b"held")
        end(corked)
        await asyncio.sleep(0)
    assert (closed.pieces, aborted.pieces) == ([b"held"], [])
    assert closed.is_over
    assert aborted.is_over
