"""The embedded store against its disk: full, failing, damaged, killed, shared."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from millpond.protocol.errors import StorageError
from millpond.storage import (
    BlockNotFoundError,
    BlockTamperedError,
    EmbeddedStore,
    StoreAccessError,
    StoreCorruptError,
    StoreFsyncError,
    StoreFullError,
    add_bytes,
    make_block,
    parse_cid,
    read_bytes,
    rebuild_index,
)
from millpond.storage.blocks import Block
from millpond.storage.disk import Disk
from millpond.storage.embedded import EmbeddedCore
from millpond.storage.unixfs import Layout

A, B = make_block(b"a" * 1000), make_block(b"b" * 1000)


class FaultyDisk(Disk):
    """Fails one kind of call, from the n-th on, with the error number given."""

    def __init__(self, call: str, number: int, after: int = 0) -> None:
        self.call, self.number, self.left = call, number, after
        self.armed = False
        self.log: list[str] = []

    def fail(self, call: str) -> None:
        self.log.append(call)
        if self.armed and call == self.call:
            if self.left == 0:
                raise OSError(self.number, os.strerror(self.number))
            self.left -= 1

    def write(self, fd: int, data: bytes) -> None:
        self.fail("write")
        super().write(fd, data)

    def fsync(self, fd: int) -> None:
        self.fail("fsync")
        super().fsync(fd)


def open_core(root: Path, disk: Disk | None = None) -> EmbeddedCore:
    return EmbeddedCore(root, disk=disk)


def files(core: EmbeddedCore, folder: str) -> list[str]:
    return sorted(path.name for path in (core.root / folder).rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("call", "number", "error"),
    [
        ("write", errno.ENOSPC, StoreFullError),
        ("write", errno.EDQUOT, StoreFullError),
        ("write", errno.EIO, StoreAccessError),
        ("fsync", errno.ENOSPC, StoreFullError),
        ("fsync", errno.EIO, StoreFsyncError),
    ],
)
@pytest.mark.parametrize("after", [0, 1, 3])
def test_O14_put_on_a_failing_disk_keeps_the_old_state(
    call: str, number: int, error: type[StorageError], after: int, tmp_path: Path
) -> None:
    disk = FaultyDisk(call, number, after)
    core = open_core(tmp_path, disk)
    core.put(A)
    disk.armed = True
    group = [make_block(bytes([i]) * 100) for i in range(5)]
    with pytest.raises(error):
        core.put_many(group)
    disk.armed = False
    assert core.get(A.cid) == A.data
    assert core.stat().blocks == 1
    assert files(core, "incoming") == []
    assert not any(core.has(block.cid) for block in group)
    core.put_many(group)
    assert [core.get(block.cid) for block in group] == [block.data for block in group]
    core.close()


def test_O14_put_syncs_the_file_then_its_names_in_this_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core = open_core(tmp_path)
    synced: list[str] = []
    fsync = os.fsync

    def record(fd: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")).relative_to(tmp_path).parts[0])
        assert not core.has(A.cid)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", record)
    core.put(A)
    assert synced == ["incoming", "blocks", "blocks"]
    assert core.has(A.cid)
    core.close()


def test_O14_put_too_large_for_the_quota_does_not_fail_its_neighbours(tmp_path: Path) -> None:
    core = EmbeddedCore(tmp_path, max_bytes=5000)
    groups = [[make_block(os.urandom(100))], [make_block(os.urandom(6000))], [make_block(os.urandom(200))]]
    start = threading.Barrier(3)

    def put(group: list[Block]) -> str:
        start.wait()
        try:
            core.put_many(group)
        except StoreFullError:
            return "full"
        return "kept"

    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(put, groups)) == ["kept", "full", "kept"]
    assert core.stat().bytes == 300
    core.close()


def test_O17_get_of_a_damaged_block_quarantines_and_forgets_it(tmp_path: Path) -> None:
    core = open_core(tmp_path)
    core.put(A)
    core.path_of(A.cid).write_bytes(b"other")
    with pytest.raises(BlockTamperedError):
        core.get(A.cid)
    assert files(core, "quarantine") == [A.cid]
    assert (core.has(A.cid), core.stat().bytes) == (False, 0)
    with pytest.raises(BlockNotFoundError):
        core.get(A.cid)
    core.put(A)
    assert core.get(A.cid) == A.data
    core.close()


def test_O19_get_through_a_planted_link_is_refused(tmp_path: Path) -> None:
    core = open_core(tmp_path / "store")
    core.put(A)
    (tmp_path / "elsewhere").write_bytes(A.data)
    core.path_of(A.cid).unlink()
    core.path_of(A.cid).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreAccessError):
        core.get(A.cid)
    core.close()


def test_get_of_a_lost_file_is_not_found_and_forgotten(tmp_path: Path) -> None:
    core = open_core(tmp_path)
    core.put(A)
    core.path_of(A.cid).unlink()
    with pytest.raises(BlockNotFoundError):
        core.get(A.cid)
    assert not core.has(A.cid)
    core.close()


def test_open_again_finds_blocks_and_pins(tmp_path: Path) -> None:
    core = open_core(tmp_path)
    core.put_many([A, B])
    core.pin(A.cid, "lease-1")
    core.close()
    core = open_core(tmp_path)
    assert core.get(B.cid) == B.data
    assert [pin.cid for pin in core.pins()] == [A.cid]
    assert core.stat().bytes == 2000
    core.close()


@pytest.mark.parametrize("damage", ["garbage", "header", "middle", "schema"])
def test_O14_open_with_a_damaged_index_is_refused_and_rebuild_brings_the_blocks_back(
    damage: str, tmp_path: Path
) -> None:
    core = open_core(tmp_path)
    blocks = [make_block(os.urandom(100)) for _ in range(300)]
    core.put_many(blocks)
    core.close()
    path = tmp_path / "index.sqlite3"
    data = bytearray(path.read_bytes())
    match damage:
        case "garbage":
            data = bytearray(os.urandom(len(data)))
        case "header":
            data[:16] = bytes(16)
        case "middle":
            data[4096:] = b"\xff" * (len(data) - 4096)
        case _:
            data[60:64] = (99).to_bytes(4, "big")
    path.write_bytes(data)
    with pytest.raises(StoreCorruptError):
        open_core(tmp_path).put(A)
    core_path(tmp_path, blocks[0]).write_bytes(b"damaged")
    assert rebuild_index(tmp_path).blocks == 299
    core = open_core(tmp_path)
    assert all(core.get(block.cid) == block.data for block in blocks[1:])
    assert files(core, "quarantine") == [blocks[0].cid]
    core.close()


def core_path(root: Path, block: Block) -> Path:
    return next((root / "blocks").glob(f"*/{block.cid}"))


def test_open_where_no_folder_can_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreAccessError):
        open_core(tmp_path / "file" / "store")


def test_open_drops_only_stale_incoming_files(tmp_path: Path) -> None:
    open_core(tmp_path).close()
    old, young = tmp_path / "incoming" / "old", tmp_path / "incoming" / "young"
    old.touch()
    young.touch()
    os.utime(old, (1, 1))
    core = open_core(tmp_path)
    assert files(core, "incoming") == ["young"]
    core.close()


WRITER = """
import os, sys
from pathlib import Path
from millpond.storage import make_block
from millpond.storage.embedded import EmbeddedCore
core = EmbeddedCore(Path(sys.argv[1]))
print("ready", flush=True)
number = 0
while True:
    group = [make_block(f"{sys.argv[2]}-{number + i}".encode() * 50) for i in range(7)]
    core.put_many(group)
    number += 7
    os.write(1, ("\\n".join(block.cid for block in group) + "\\n").encode())
"""


def writer(root: Path, label: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(root), label], stdout=subprocess.PIPE)


@pytest.mark.parametrize("lines", [10, 57, 120])
def test_O01_every_acknowledged_block_survives_kill_9(lines: int, tmp_path: Path) -> None:
    process = writer(tmp_path, "x")
    assert process.stdout is not None
    told = [process.stdout.readline() for _ in range(lines)]
    process.send_signal(signal.SIGKILL)
    told += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    told = [line.strip() for line in told[1:] if len(line) == 60]
    core = open_core(tmp_path)
    assert len(told) >= lines - 1
    assert all(core.has(cid) and core.get(cid) for cid in (parse_cid(line.decode()) for line in told))
    rows = {cid for cid, _ in core._index.older(float("inf"))}
    assert rows <= set(files(core, "blocks"))
    core.close()


def test_two_processes_share_one_store(tmp_path: Path) -> None:
    processes = [writer(tmp_path, label) for label in ("x", "y")]
    told: list[bytes] = []
    for process in processes:
        assert process.stdout is not None
        told += [process.stdout.readline().strip() for _ in range(40)]
    core = open_core(tmp_path)
    core.gc(min_age_seconds=3600)
    core.put(A)
    for process in processes:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
    cids = [parse_cid(line.decode()) for line in told if line != b"ready"]
    assert all(core.get(cid) for cid in cids)
    core.close()


@pytest.mark.parametrize("change", ["put", "gc", "pin", "delete"])
def test_change_waits_while_another_process_changes_the_store(change: str, tmp_path: Path) -> None:
    core = open_core(tmp_path)
    actions = {
        "put": lambda: core.put(A),
        "gc": core.gc,
        "pin": lambda: core.pin(A.cid, "x"),
        "delete": lambda: core.delete(A.cid),
    }
    with (tmp_path / "lock").open("wb") as other, ThreadPoolExecutor(1) as thread:
        fcntl.flock(other, fcntl.LOCK_EX)
        job = thread.submit(actions[change])
        assert wait([job], timeout=0.1).not_done
        fcntl.flock(other, fcntl.LOCK_UN)
        job.result(timeout=10)
    core.close()


def test_put_get_gc_by_many_threads_agree(tmp_path: Path) -> None:
    core = open_core(tmp_path)
    blocks = [make_block(os.urandom(50)) for _ in range(60)]
    for block in blocks:
        core.pin(block.cid, "x")

    def work(block: Block) -> bytes:
        core.put(block)
        core.gc(min_age_seconds=-1)
        return core.get(block.cid)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, blocks)) == [block.data for block in blocks]
    assert core.stat().bytes == sum(len(block.data) for block in blocks)
    core.close()


def test_put_of_many_at_once_shares_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core = open_core(tmp_path)
    groups: list[int] = []
    original = core._index.add

    def counted(sizes: Any, now: float) -> None:
        groups.append(len(sizes))
        original(sizes, now)

    monkeypatch.setattr(core._index, "add", counted)
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(core.put, [make_block(os.urandom(50)) for _ in range(64)]))
    assert sum(groups) == 64
    assert len(groups) < 40
    core.close()


def test_memory_stays_flat_while_a_large_file_is_added(tmp_path: Path) -> None:
    """192 MiB pass through; far less is held."""
    code = """
import anyio, re, sys
from pathlib import Path
from millpond.storage import EmbeddedStore, add_file
async def main():
    store = EmbeddedStore.open(sys.argv[1])
    await add_file(store, sys.argv[2])
    await store.aclose()
anyio.run(main)
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""
    big = tmp_path / "big"
    with big.open("wb") as file:
        for _ in range(24):
            file.write(os.urandom(8 * 1024 * 1024))
    out = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store"), str(big)], capture_output=True, check=True, timeout=60
    )
    assert int(out.stdout) < 160


async def test_store_async_face_reads_what_was_added(tmp_path: Path) -> None:
    store = EmbeddedStore.open(tmp_path)
    cid = await add_bytes(store, b"0123456789", layout=Layout(chunk_bytes=3, width=2))
    assert await read_bytes(store, cid) == b"0123456789"
    await store.aclose()
