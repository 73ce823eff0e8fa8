"""Gas of the core operations as whole transactions on Anvil, beside the best anchor and the ceiling of each.

    python benchmarks/contracts/gas.py            measure, print, write tests/contracts/gas.json
    python benchmarks/contracts/gas.py --check    measure, print, compare with the file: exit 1 on a rise above 2 %

Exit 1 in both when an operation is above its ceiling. `resize_lease` is the second resize of a lease: the first writes one slot more. Anchors were measured side by side on Anvil with the optimizer on; their
projects: Prime Intellect, Graph Horizon, Janction, EAS.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

from measured.operations import measure
from measured.world import CHAIN_ID, make_world

from millpond.chain import devnet
from millpond.chain.eth import Eth
from millpond.chain.rpc import Rpc

FILE = Path(__file__).resolve().parents[2] / "tests/contracts/gas.json"
MOST_RISE = 1.02


@dataclass(frozen=True, slots=True)
class Bound:
    """`anchor` is 0 where no other project has the operation."""

    anchor: int
    ceiling: int
    of: str = ""


BOUNDS = {
    "create_pool": Bound(1_895_995, 175_000, "Prime Intellect"),
    "register_provider": Bound(237_707, 150_000, "Prime Intellect"),
    "register_device": Bound(323_990, 120_000, "Prime Intellect"),
    "register_device_first": Bound(323_990, 135_000, "Prime Intellect"),
    "join_pool": Bound(203_340, 90_000, "Prime Intellect"),
    "stake": Bound(94_283, 80_000, "Graph Horizon"),
    "provision": Bound(119_482, 110_000, "Graph Horizon"),
    "thaw": Bound(228_679, 100_000, "Graph Horizon"),
    "open_lease": Bound(300_050, 205_000, "Janction"),
    "open_lease_first": Bound(300_050, 265_000, "Janction"),
    "close_lease": Bound(86_054, 80_000, "Janction"),
    "resize_lease": Bound(0, 120_000),
    "collect_voucher": Bound(160_440, 90_000, "Graph Horizon"),
    "collect_voucher_first": Bound(177_528, 115_000, "Graph Horizon"),
    "collect_voucher_batch32_each": Bound(160_440, 45_000, "Graph Horizon"),
    "withdraw": Bound(56_776, 56_000, "Prime Intellect"),
    "slash": Bound(77_069, 75_000, "Prime Intellect"),
    "slash_first": Bound(110_663, 110_000, "Graph Horizon"),
    "attest_batch": Bound(0, 70_000),
}


async def measured() -> dict[str, int]:
    async with (
        devnet.running(devnet.DevnetConfig(port=0, block_time_s=0)) as chain,
        Rpc(chain.url, chain_id=CHAIN_ID) as rpc,
    ):
        found = await measure(await make_world(Eth(rpc)))
    return {key: found[key] for key in BOUNDS if key in found}


def table(found: dict[str, int]) -> list[str]:
    lines = [f"{'operation':30}{'gas':>9}{'ceiling':>10}{'ratio':>7}{'anchor':>11}{'ratio':>7}"]
    for key, gas in found.items():
        bound = BOUNDS[key]
        anchor = f"{bound.anchor:>11,}{gas / bound.anchor:>7.2f}  {bound.of}" if bound.anchor else f"{'-':>11}{'-':>7}"
        lines.append(f"{key:30}{gas:>9,}{bound.ceiling:>10,}{gas / bound.ceiling:>7.2f}{anchor}")
    return lines


def above_ceiling(found: dict[str, int]) -> list[str]:
    return [
        f"{key}: {gas:,} is above the ceiling of {BOUNDS[key].ceiling:,}"
        for key, gas in found.items()
        if gas > BOUNDS[key].ceiling
    ]


def risen(found: dict[str, int], known: dict[str, int]) -> list[str]:
    """What costs over 2 % more than in `known`, and what only one of the two has."""
    faults = [f"{key}: only one of file and run has it" for key in sorted(found.keys() ^ known.keys())]
    return faults + [
        f"{key}: {found[key]:,} is over 2 % more than the {known[key]:,} of the file"
        for key in sorted(found.keys() & known.keys())
        if found[key] > known[key] * MOST_RISE
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--check", action="store_true", help="compare with tests/contracts/gas.json instead of writing it"
    )
    arguments = parser.parse_args()
    found = asyncio.run(measured())
    print("\n".join(table(found)))
    faults = above_ceiling(found)
    if arguments.check:
        faults += risen(found, json.loads(FILE.read_text()))
    else:
        FILE.write_text(json.dumps(found, indent=2) + "\n")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
