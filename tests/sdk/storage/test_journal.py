"""The journal's conformance: the same tests for SQLite and for the fake."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millpond.storage.journal import (
    Batch,
    Journal,
    JournalFailedError,
    JournalNameError,
    MemoryJournal,
    SqliteJournal,
    verify_chain,
)

Opener = Callable[[], Journal]


@pytest.fixture(params=["sqlite", "memory"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    opened: Journal = SqliteJournal(tmp_path / "journal.sqlite3") if request.param == "sqlite" else MemoryJournal()
    yield opened
    opened.close()


def batch(*puts: tuple[str, str, bytes]) -> Batch:
    made = Batch()
    for table, key, value in puts:
        made.put(table, key, value)
    return made


async def test_put_committed_is_read(journal: Journal) -> None:
    await journal.commit(batch(("task", "a", b"1")))
    assert journal.get("task", "a") == b"1"


async def test_get_without_the_key_or_the_table_returns_none(journal: Journal) -> None:
    await journal.commit(batch(("task", "a", b"1")))
    assert journal.get("task", "b") is None
    assert journal.get("lease", "a") is None


async def test_put_of_a_known_key_replaces(journal: Journal) -> None:
    await journal.commit(batch(("task", "a", b"1"), ("task", "a", b"2")))
    assert journal.get("task", "a") == b"2"
    assert journal.count("task") == 1


async def test_put_json_reads_back_the_same_value(journal: Journal) -> None:
    made = Batch()
    made.put_json("meta", "config", {"b": [1, None], "a": "x"})
    await journal.commit(made)
    assert journal.get_json("meta", "config") == {"a": "x", "b": [1, None]}
    assert journal.get_json("meta", "none") is None


async def test_scan_returns_the_prefix_in_order(journal: Journal) -> None:
    await journal.commit(
        batch(("task", "j2/1", b"c"), ("task", "j1/2", b"b"), ("task", "j1/1", b"a"), ("lease", "j1/3", b"d"))
    )
    assert list(journal.scan("task", "j1/")) == [("j1/1", b"a"), ("j1/2", b"b")]


async def test_scan_beyond_one_page_returns_all(journal: Journal) -> None:
    await journal.commit(batch(*[("task", f"{i:05}", b"") for i in range(1300)]))
    assert [key for key, _ in journal.scan("task")] == [f"{i:05}" for i in range(1300)]


async def test_scan_after_a_key_starts_behind_it(journal: Journal) -> None:
    await journal.commit(batch(("task", "a/1", b""), ("task", "a/2", b""), ("task", "b/1", b"")))
    assert [key for key, _ in journal.scan("task", "a/", after="a/1")] == ["a/2"]


async def test_delete_removes_one_key_only(journal: Journal) -> None:
    made = batch(("task", "a", b"1"), ("task", "ab", b"2"))
    made.delete("task", "a")
    made.delete("task", "none")
    await journal.commit(made)
    assert [key for key, _ in journal.scan("task")] == ["ab"]


async def test_delete_prefix_and_below_remove_ranges(journal: Journal) -> None:
    made = batch(*[("nonce", key, b"") for key in ("1/a", "1/b", "2/a", "3/a")])
    made.delete_prefix("nonce", "1/")
    made.delete_below("nonce", "3")
    await journal.commit(made)
    assert [key for key, _ in journal.scan("nonce")] == ["3/a"]


async def test_outbox_positions_count_from_one_per_lane(journal: Journal) -> None:
    made = Batch()
    for lane in ("node", "node", "0xabc"):
        made.outbox_push(lane, lane.encode())
    assert (await journal.commit(made)).positions == (1, 2, 1)
    assert journal.outbox_next("node") == 3


async def test_outbox_ack_drops_up_to_the_position_and_positions_go_on(journal: Journal) -> None:
    made = Batch()
    for body in (b"a", b"b", b"c"):
        made.outbox_push("node", body)
    made.outbox_ack("node", 2)
    made.outbox_ack("node", 1)
    await journal.commit(made)
    assert [(row.position, row.body) for row in journal.outbox("node")] == [(3, b"c")]
    made = Batch()
    made.outbox_ack("node", 3)
    made.outbox_push("node", b"d")
    assert (await journal.commit(made)).positions == (4,)


async def test_events_chain_and_verify(journal: Journal) -> None:
    made = Batch()
    made.append_event("request", b"one")
    made.append_event("decision", b"two")
    hashes = (await journal.commit(made)).hashes
    assert [event.hash for event in journal.events()] == list(hashes)
    assert [event.seq for event in journal.events(after=1)] == [2]
    assert journal.head() == hashes[1]
    assert verify_chain(journal) == 2


async def test_events_with_one_dedupe_key_are_kept_once(journal: Journal) -> None:
    first, second = Batch(), Batch()
    first.append_event("request", b"one", dedupe="r1")
    second.append_event("request", b"one", dedupe="r1")
    second.append_event("request", b"two")
    one, two = await journal.commit(first), await journal.commit(second)
    assert two.hashes[0] == one.hashes[0]
    assert [event.body for event in journal.events()] == [b"one", b"two"]


async def test_batches_commit_in_the_order_of_submission(journal: Journal) -> None:
    futures = []
    for i in range(300):
        made = Batch()
        made.put("meta", "last", str(i).encode())
        made.outbox_push("node", b"")
        futures.append(journal.submit(made))
    assert [future.result(timeout=20).positions[0] for future in futures] == list(range(1, 301))
    assert journal.get("meta", "last") == b"299"


@pytest.mark.parametrize("name", ["", "Task", "a;drop", 'x"', "t" * 40])
def test_table_with_another_name_is_refused(name: str) -> None:
    with pytest.raises(JournalNameError):
        Batch().put(name, "k", b"")


async def test_commit_after_close_fails(journal: Journal) -> None:
    journal.close()
    with pytest.raises(JournalFailedError):
        await journal.commit(batch(("task", "a", b"1")))


async def test_memory_image_has_only_what_is_committed() -> None:
    held = MemoryJournal(holds=True)
    done = held.submit(batch(("task", "a", b"1")))
    image = held.image()
    held.release()
    assert done.result(timeout=1)
    assert MemoryJournal(image).get("task", "a") is None
    assert MemoryJournal(held.image()).get("task", "a") == b"1"
