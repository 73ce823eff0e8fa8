"""What a set of roots reaches: the marking half of gc."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from millpond.storage.cid import Cid, Codec, codec_of
from millpond.storage.dagpb import decode_node
from millpond.storage.errors import BlockNotFoundError, BlockTamperedError, DagError
from millpond.storage.port import Pin


def links_of(cid: Cid, block: bytes) -> tuple[Cid, ...]:
    """CIDs a verified block links to; none for raw bytes or for a block that is no node at all."""
    if codec_of(cid) is Codec.RAW:
        return ()
    try:
        return tuple(link.cid for link in decode_node(block).links)
    except DagError:
        return ()


def reachable(pins: Iterable[Pin], get: Callable[[Cid], bytes]) -> set[Cid]:
    """All CIDs that `pins` keep. Blocks that are missing or damaged keep nothing below them."""
    kept: set[Cid] = set()
    opened: set[Cid] = set()
    stack: list[Cid] = []
    for pin in pins:
        (stack.append if pin.recursive else kept.add)(pin.cid)
    while stack:
        cid = stack.pop()
        kept.add(cid)
        if cid in opened or codec_of(cid) is Codec.RAW:
            continue
        opened.add(cid)
        stack.extend(links_of(cid, _read(cid, get)))
    return kept


def _read(cid: Cid, get: Callable[[Cid], bytes]) -> bytes:
    try:
        return get(cid)
    except (BlockNotFoundError, BlockTamperedError):
        return b""
