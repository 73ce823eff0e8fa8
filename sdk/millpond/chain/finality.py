"""How deep a block must be before nobody expects it to be replaced."""

from __future__ import annotations

from millpond.chain.keys import DEVELOPMENT_CHAIN_ID

DEVELOPMENT_FINALITY = 2
LIVE_FINALITY = 64


def finality_of(chain_id: int, wanted: int | None = None) -> int:
    """Blocks: `wanted`, else 2 on the development chain and 64 on any other."""
    if wanted is not None:
        return wanted
    return DEVELOPMENT_FINALITY if chain_id == DEVELOPMENT_CHAIN_ID else LIVE_FINALITY
