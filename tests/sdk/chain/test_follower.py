"""The follower against a simulated chain that reorganises at random (O05): what it says equals a replay from scratch."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.chain import artefacts
from millpond.chain.cursor import ChainEvent, Cursor
from millpond.chain.errors import ChainRollbackError, CursorError, RpcResponseError
from millpond.chain.eth import Eth
from millpond.chain.follower import EventBatch, Final, Follower, FollowerConfig, Seen, Undone
from millpond.chain.rpc import Rpc
from millpond.protocol.hashing import keccak256
from millpond.protocol.ids import Address

ABI = artefacts.load("Tokens").abi
TOKENS = Address("0x70997970C51812dc3A010C7d01b50e0d17dc79C8")
LISTED = ABI.event("TokenListed")


class Block:
    def __init__(self, parent: Block | None, salt: int, events: int) -> None:
        self.number = parent.number + 1 if parent else 0
        self.parent = parent.hash if parent else bytes(32)
        self.hash = keccak256(self.parent + salt.to_bytes(8, "big"))
        self.events = events

    def header(self) -> dict[str, str]:
        return {
            "number": hex(self.number),
            "hash": "0x" + self.hash.hex(),
            "parentHash": "0x" + self.parent.hex(),
            "timestamp": hex(self.number),
            "baseFeePerGas": "0x1",
        }

    def logs(self) -> list[dict[str, Any]]:
        word = "0x" + bytes(31).hex() + "01"
        return [
            {
                "address": TOKENS,
                "topics": ["0x" + LISTED.topic.hex(), word, word],
                "data": "0x",
                "blockNumber": hex(self.number),
                "blockHash": "0x" + self.hash.hex(),
                "transactionHash": "0x" + keccak256(self.hash + bytes([index])).hex(),
                "logIndex": hex(index),
            }
            for index in range(self.events)
        ]


class FakeRpc(Rpc):
    """A chain in memory. `countdown` answers from now, `surprise` runs: a reorganisation between two questions of one poll."""

    def __init__(self, chain_id: int = 31337) -> None:
        self.url = "fake"
        self.chain_id_value = chain_id
        self.salt = 0
        self.blocks: list[Block] = [Block(None, 0, 0)]
        self.countdown = -1
        self.surprise: Any = None

    def mine(self, *events: int) -> None:
        for count in events:
            self.salt += 1
            self.blocks.append(Block(self.blocks[-1], self.salt, count))

    def reorganise(self, depth: int, *events: int) -> None:
        del self.blocks[max(1, len(self.blocks) - depth) :]
        self.mine(*events)

    async def connect(self) -> int:
        return self.chain_id_value

    async def batch(self, calls: Any) -> list[Any]:
        return [self.answer(method, list(params)) for method, params in calls]

    async def close(self) -> None:
        pass

    def answer(self, method: str, params: list[Any]) -> Any:
        self.countdown -= 1
        if self.countdown == 0:
            self.surprise()
        if method == "eth_getBlockByNumber":
            number = len(self.blocks) - 1 if params[0] == "latest" else int(params[0], 16)
            return self.blocks[number].header() if number < len(self.blocks) else None
        assert method == "eth_getLogs"
        first, last = int(params[0]["fromBlock"], 16), int(params[0]["toBlock"], 16)
        return [log for block in self.blocks[first : last + 1] for log in block.logs()]

    def event_ids(self, last: int | None = None) -> list[str]:
        """What a replay from scratch finds."""
        return [
            f"0x{block.hash.hex()}:{i}"
            for block in self.blocks
            if last is None or block.number <= last
            for i in range(block.events)
        ]


class Reader:
    """Applies notices as a user of the follower does, and checks that each is allowed."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.final: list[str] = []

    def apply(self, batch: EventBatch) -> None:
        for notice in batch.notices:
            event_id = notice.event.id
            match notice:
                case Seen():
                    assert event_id not in self.seen
                    self.seen.append(event_id)
                case Undone():
                    assert self.seen.pop() == event_id
                    if event_id in self.final:
                        assert self.final.pop() == event_id
                case Final():
                    assert event_id in self.seen
                    assert event_id not in self.final
                    self.final.append(event_id)


def follower_of(rpc: FakeRpc, cursor: Cursor | None = None, **config: Any) -> Follower:
    return Follower(Eth(rpc), {TOKENS: ABI}, cursor or Cursor(0), FollowerConfig(**config))


async def drain(follower: Follower, reader: Reader) -> None:
    """Polls until there is nothing new; a poll that met a moving chain counts as nothing once."""
    idle = 0
    while idle < 2:
        batch = await follower.poll()
        idle = 0 if batch is not None else idle + 1
        if batch is not None:
            reader.apply(batch)


STEP = st.one_of(
    st.tuples(st.just("mine"), st.lists(st.integers(0, 3), min_size=1, max_size=6)),
    st.tuples(st.just("grow"), st.integers(10, 80)),
    st.tuples(st.just("reorg"), st.integers(1, 64), st.lists(st.integers(0, 3), max_size=14)),
    st.tuples(st.just("poll")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("torn"), st.integers(1, 9), st.integers(1, 5), st.lists(st.integers(0, 2), max_size=7)),
)


@settings(max_examples=400, deadline=None)
@given(steps=st.lists(STEP, max_size=25), range_blocks=st.integers(1, 9))
def test_O05_any_history_of_reorganisations_equals_a_replay(steps: list[Any], range_blocks: int) -> None:
    async def story() -> None:
        rpc, reader = FakeRpc(), Reader()
        follower = follower_of(rpc, range_blocks=range_blocks)
        for step in steps:
            match step:
                case ("mine", events):
                    rpc.mine(*events)
                case ("grow", blocks):
                    rpc.mine(*[1, 0] * (blocks // 2))
                case ("reorg", depth, events):
                    rpc.reorganise(depth, *events)
                case ("poll",):
                    batch = await follower.poll()
                    if batch is not None:
                        reader.apply(batch)
                case ("restart",):
                    follower = follower_of(rpc, Cursor.from_json(follower.cursor.to_json()), range_blocks=range_blocks)
                case ("torn", countdown, depth, events):
                    rpc.countdown = countdown
                    rpc.surprise = partial(rpc.reorganise, depth, *events)
                    batch = await follower.poll()
                    if batch is not None:
                        reader.apply(batch)
        rpc.countdown = -1
        await drain(follower, reader)
        assert reader.seen == rpc.event_ids()
        # A chain that became shorter keeps final what still stands.
        assert reader.final == rpc.event_ids()[: len(reader.final)]
        assert len(reader.final) >= len(rpc.event_ids(len(rpc.blocks) - 3))

    asyncio.run(story())


@pytest.mark.parametrize("countdown", range(1, 10))
@pytest.mark.parametrize("depth", [1, 2, 4, 6])
async def test_O05_reorganisation_between_two_questions_of_one_poll_loses_nothing(countdown: int, depth: int) -> None:
    rpc, reader = FakeRpc(), Reader()
    rpc.mine(1, 1, 1)
    follower = follower_of(rpc)
    await drain(follower, reader)
    rpc.mine(1, 1, 1)
    rpc.countdown, rpc.surprise = countdown, lambda: rpc.reorganise(depth, *[2] * (depth + 1))
    await drain(follower, reader)
    assert reader.seen == rpc.event_ids()


async def test_events_come_seen_then_final_at_the_finality_depth() -> None:
    rpc, follower = FakeRpc(), None
    rpc.mine(1)
    follower = follower_of(rpc)
    first = await follower.poll()
    assert first is not None
    assert [type(item) for item in first.notices] == [Seen]
    rpc.mine(0)
    second = await follower.poll()
    assert second is not None
    assert second.notices == ()
    rpc.mine(0)
    third = await follower.poll()
    assert third is not None
    assert [type(item) for item in third.notices] == [Final]


async def test_poll_without_news_returns_none() -> None:
    rpc = FakeRpc()
    rpc.mine(1)
    follower = follower_of(rpc)
    await follower.poll()
    assert await follower.poll() is None


async def test_event_carries_decoded_arguments_and_place() -> None:
    rpc = FakeRpc()
    rpc.mine(0, 1)
    batch = await follower_of(rpc).poll()
    assert batch is not None
    event = batch.notices[0].event
    assert (event.contract, event.name, event.address, event.block_number, event.log_index) == (
        "Tokens",
        "TokenListed",
        TOKENS,
        2,
        0,
    )
    assert event.args == {"token": "0x0000000000000000000000000000000000000001", "id": 1}


async def test_start_block_leaves_earlier_events_out() -> None:
    rpc = FakeRpc()
    rpc.mine(1, 1, 1)
    reader = Reader()
    await drain(follower_of(rpc, Cursor(2)), reader)
    assert len(reader.seen) == 2


async def test_O05_shorter_chain_after_a_restart_undoes_what_is_lost() -> None:
    rpc, reader = FakeRpc(), Reader()
    rpc.mine(1, 1, 1, 1, 1)
    follower = follower_of(rpc)
    await drain(follower, reader)
    rpc.reorganise(4)
    await drain(follower, reader)
    assert reader.seen == rpc.event_ids()


async def test_O05_rollback_to_genesis_on_the_development_chain_is_followed() -> None:
    rpc, reader = FakeRpc(), Reader()
    follower = follower_of(rpc, keep_blocks=4)
    for _ in range(30):
        rpc.mine(1, 0)
        await drain(follower, reader)
    rpc.reorganise(100, 2)
    await drain(follower, reader)
    assert reader.seen == rpc.event_ids()


async def test_O05_live_chain_deeper_than_finality_halts() -> None:
    rpc, reader = FakeRpc(chain_id=1), Reader()
    rpc.mine(*[1] * 10)
    follower = follower_of(rpc, finality=3)
    await drain(follower, reader)
    before = follower.cursor
    rpc.reorganise(6, *[1] * 8)
    with pytest.raises(ChainRollbackError) as caught:
        await follower.poll()
    assert caught.value.fields["block"] == 5
    assert follower.cursor == before


async def test_O05_live_chain_within_finality_is_followed() -> None:
    rpc, reader = FakeRpc(chain_id=1), Reader()
    rpc.mine(*[1] * 10)
    follower = follower_of(rpc, finality=3)
    await drain(follower, reader)
    rpc.reorganise(3, *[1] * 5)
    await drain(follower, reader)
    assert reader.seen == rpc.event_ids()


async def test_O04_live_server_that_is_behind_undoes_nothing() -> None:
    rpc, reader = FakeRpc(chain_id=1), Reader()
    rpc.mine(*[1] * 10)
    follower = follower_of(rpc, finality=3)
    await drain(follower, reader)
    late, rpc.blocks = rpc.blocks, rpc.blocks[:6]
    assert await follower.poll() is None
    rpc.blocks = late
    rpc.mine(1)
    await drain(follower, reader)
    assert reader.seen == rpc.event_ids()


async def test_long_history_is_read_in_bounded_ranges() -> None:
    rpc, reader = FakeRpc(), Reader()
    rpc.mine(*[1, 0, 0, 0, 0] * 40)
    ranges: list[int] = []
    real = rpc.answer

    def answer(method: str, params: list[Any]) -> Any:
        if method == "eth_getLogs":
            ranges.append(int(params[0]["toBlock"], 16) - int(params[0]["fromBlock"], 16) + 1)
        return real(method, params)

    rpc.answer = answer  # type: ignore[method-assign]
    await drain(follower_of(rpc, range_blocks=30), reader)
    assert max(ranges) == 30
    assert reader.seen == rpc.event_ids()


async def test_cursor_keeps_a_bounded_number_of_blocks() -> None:
    rpc, reader = FakeRpc(chain_id=1), Reader()
    follower = follower_of(rpc, finality=3, keep_blocks=10)
    for _ in range(100):
        rpc.mine(1)
        await drain(follower, reader)
    assert len(follower.cursor.blocks) <= 3 + 10 + 1


async def test_log_of_a_known_event_that_does_not_decode_raises() -> None:
    rpc = FakeRpc()
    rpc.mine(1)
    real = Block.logs
    broken = [{**log, "topics": log["topics"][:2]} for log in real(rpc.blocks[1])]
    rpc.blocks[1].logs = lambda: broken  # type: ignore[method-assign]
    with pytest.raises(RpcResponseError):
        await follower_of(rpc).poll()


def test_cursor_with_every_kind_of_argument_survives_json() -> None:
    rpc = FakeRpc()
    rpc.mine(1)
    event = ChainEvent(
        "X",
        TOKENS,
        "E",
        {"a": 2**255, "b": b"\x00\xff", "c": [1, {"d": "0x"}]},
        1,
        "0x" + "00" * 32,
        "0x",
        0,  # type: ignore[arg-type]
    )
    from millpond.chain.cursor import BlockRef

    cursor = Cursor(5, (BlockRef(1, event.block_hash, (event,), True),))
    assert Cursor.from_json(cursor.to_json()) == cursor


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"start": 1}', '{"start": 1, "blocks": [{}]}'])
def test_malformed_cursor_raises(text: str) -> None:
    with pytest.raises(CursorError):
        Cursor.from_json(text)
