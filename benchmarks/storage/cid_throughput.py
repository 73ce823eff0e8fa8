"""Naming and storing content, beside what the machine allows.

    python benchmarks/storage/cid_throughput.py [--mib 256] [--rounds 5] [--folder DIR]

One run measures, in turn within each round: plain hashlib.sha256 over the same chunks (the physical limit of naming),
our CIDs with chunks and tree, a plain copy of the file with fsync (the anchor of storing), a durable put of blocks that
have their names already, and a durable add of the file, which must also hash it. Figures are medians over the rounds, ratios are medians of each round's ratio. GB are 10^9 bytes.
`bound` is the lower of the hash rate and the copy rate: a store that must hash what it copies cannot beat it on one core.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median

import anyio

from millpond.storage import Block, EmbeddedStore, add_file, cid_of_bytes, make_block
from millpond.storage.embedded import EmbeddedCore

MIB = 1024 * 1024
GB = 1e9
GROUP = 32


def rate(size: int, action: Callable[[], object]) -> float:
    """GB per second of `action` over `size` bytes."""
    started = time.perf_counter()
    action()
    return size / GB / (time.perf_counter() - started)


def plain_sha256(data: bytes) -> None:
    for at in range(0, len(data), MIB):
        hashlib.sha256(data[at : at + MIB]).digest()


def copy_with_fsync(source: Path, target: Path) -> None:
    with source.open("rb", buffering=0) as reader, target.open("wb", buffering=0) as writer:
        while piece := reader.read(MIB):
            writer.write(piece)
        os.fsync(writer.fileno())


def durable_add(source: Path, root: Path) -> None:
    async def add() -> None:
        store = EmbeddedStore.open(root)
        await add_file(store, source)
        await store.aclose()

    anyio.run(add)


def durable_put(blocks: Sequence[Block], root: Path) -> None:
    core = EmbeddedCore(root)
    for at in range(0, len(blocks), GROUP):
        core.put_many(blocks[at : at + GROUP])
    core.close()


def one_round(data: bytes, folder: Path) -> dict[str, float]:
    source = folder / "source"
    size = len(data)
    blocks = [make_block(data[at : at + MIB]) for at in range(0, size, MIB)]
    rates = {
        "sha256": rate(size, partial(plain_sha256, data)),
        "cid": rate(size, partial(cid_of_bytes, data)),
        "copy_fsync": rate(size, partial(copy_with_fsync, source, folder / "copy")),
        "durable_put": rate(size, partial(durable_put, blocks, folder / "put")),
        "durable_add": rate(size, partial(durable_add, source, folder / "add")),
    }
    (folder / "copy").unlink()
    for store in ("put", "add"):
        shutil.rmtree(folder / store)
    os.sync()
    return rates


def ratios(rates: dict[str, float]) -> dict[str, float]:
    bound = min(rates["sha256"], rates["copy_fsync"])
    return {
        "cid / sha256": rates["cid"] / rates["sha256"],
        "durable_put / copy_fsync": rates["durable_put"] / rates["copy_fsync"],
        "durable_add / copy_fsync": rates["durable_add"] / rates["copy_fsync"],
        "durable_add / bound": rates["durable_add"] / bound,
    }


def measure(mib: int, rounds: int, folder: Path) -> dict[str, dict[str, float]]:
    data = os.urandom(mib * MIB)
    (folder / "source").write_bytes(data)
    one_round(data[: 16 * MIB], folder)
    runs = [one_round(data, folder) for _ in range(rounds)]
    shares = [ratios(run) for run in runs]
    return {
        "GB/s": {name: round(median(run[name] for run in runs), 3) for name in runs[0]},
        "ratio": {name: round(median(share[name] for share in shares), 3) for name in shares[0]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="CID and durable add throughput beside sha256 and copy with fsync")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write; default: the system's temporary folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        result = measure(options.mib, options.rounds, Path(folder))
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    load = round(os.getloadavg()[0], 1)
    print(
        json.dumps(
            {**result, "machine": machine, "load_average": load, "date": datetime.now(UTC).date().isoformat()}, indent=1
        )
    )


if __name__ == "__main__":
    main()
