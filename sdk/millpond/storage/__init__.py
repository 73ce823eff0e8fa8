"""The data plane: content named by UnixFS CIDs, verified before use. Names load when first used (PEP 562)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millpond.storage.add import add_bytes, add_directory, add_file, add_stream
    from millpond.storage.archive import unpack_tar
    from millpond.storage.blocks import MAX_BLOCK_BYTES, Block, check_block, make_block
    from millpond.storage.budget import Budget
    from millpond.storage.car import export_car, import_car
    from millpond.storage.cid import Cid, Codec, cid_from_bytes, cid_of, cid_to_bytes, codec_of, parse_cid
    from millpond.storage.embedded import EmbeddedStore, rebuild_index
    from millpond.storage.errors import (
        ArchiveError,
        BlockNotFoundError,
        BlockPinnedError,
        BlockTamperedError,
        BlockTooLargeError,
        BudgetExceededError,
        CidError,
        DagError,
        LinkRefusedError,
        SourceError,
        StoreAccessError,
        StoreCorruptError,
        StoreFsyncError,
        StoreFullError,
        UnsafePathError,
        WrongKindError,
    )
    from millpond.storage.http import HttpSource
    from millpond.storage.layered import LayeredStore
    from millpond.storage.memory import MemoryStore
    from millpond.storage.port import BlockSink, BlockSource, BlockStore, GcReport, Pin, StoreStat
    from millpond.storage.read import export_directory, export_file, iter_file, list_directory, read_bytes
    from millpond.storage.tree import cid_of_bytes

_MODULES = {
    "add": ("add_bytes", "add_directory", "add_file", "add_stream"),
    "archive": ("unpack_tar",),
    "blocks": ("MAX_BLOCK_BYTES", "Block", "check_block", "make_block"),
    "budget": ("Budget",),
    "car": ("export_car", "import_car"),
    "cid": ("Cid", "Codec", "cid_from_bytes", "cid_of", "cid_to_bytes", "codec_of", "parse_cid"),
    "embedded": ("EmbeddedStore", "rebuild_index"),
    "errors": (
        "ArchiveError",
        "BlockNotFoundError",
        "BlockPinnedError",
        "BlockTamperedError",
        "BlockTooLargeError",
        "BudgetExceededError",
        "CidError",
        "DagError",
        "LinkRefusedError",
        "SourceError",
        "StoreAccessError",
        "StoreCorruptError",
        "StoreFsyncError",
        "StoreFullError",
        "UnsafePathError",
        "WrongKindError",
    ),
    "http": ("HttpSource",),
    "layered": ("LayeredStore",),
    "memory": ("MemoryStore",),
    "port": ("BlockSink", "BlockSource", "BlockStore", "GcReport", "Pin", "StoreStat"),
    "read": ("export_directory", "export_file", "iter_file", "list_directory", "read_bytes"),
    "tree": ("cid_of_bytes",),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "MAX_BLOCK_BYTES",
    "ArchiveError",
    "Block",
    "BlockNotFoundError",
    "BlockPinnedError",
    "BlockSink",
    "BlockSource",
    "BlockStore",
    "BlockTamperedError",
    "BlockTooLargeError",
    "Budget",
    "BudgetExceededError",
    "Cid",
    "CidError",
    "Codec",
    "DagError",
    "EmbeddedStore",
    "GcReport",
    "HttpSource",
    "LayeredStore",
    "LinkRefusedError",
    "MemoryStore",
    "Pin",
    "SourceError",
    "StoreAccessError",
    "StoreCorruptError",
    "StoreFsyncError",
    "StoreFullError",
    "StoreStat",
    "UnsafePathError",
    "WrongKindError",
    "add_bytes",
    "add_directory",
    "add_file",
    "add_stream",
    "check_block",
    "cid_from_bytes",
    "cid_of",
    "cid_of_bytes",
    "cid_to_bytes",
    "codec_of",
    "export_car",
    "export_directory",
    "export_file",
    "import_car",
    "iter_file",
    "list_directory",
    "make_block",
    "parse_cid",
    "read_bytes",
    "rebuild_index",
    "unpack_tar",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
