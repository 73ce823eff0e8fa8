"""Errors of the data plane.

StorageError
├── CidError                 text or bytes are not a CID this network uses
├── DagError                 a verified block is not well-formed dag-pb, UnixFS or CAR
│   └── WrongKindError       a file was asked for and a directory found, or the reverse
├── BlockNotFoundError       no source has the block
├── BlockTamperedError       bytes do not hash to the CID they came under
├── BlockTooLargeError       a block is larger than any party accepts
├── BlockPinnedError         a pinned block was to be deleted
├── BudgetExceededError      bytes, nodes, depth or time ran out while streaming
├── StoreFullError           quota or disk is full; what was stored before is untouched
├── StoreCorruptError        the index of the store cannot be trusted
├── StoreFsyncError          the disk lost a write: a daemon must stop
├── StoreAccessError         the operating system refused a file or folder
├── SourceError              a remote source failed, refused or was too slow
├── UnsafePathError          a name or target would leave, overwrite or confuse the folder written to
│   └── LinkRefusedError     a link, device, socket or pipe where only regular files may be
└── ArchiveError             an archive is malformed
"""

from __future__ import annotations

from millpond.protocol.errors import StorageError


class CidError(StorageError):
    remedy_text = "Give a CIDv1 in base32 (it starts with 'b') with sha2-256, as `ipfs add --cid-version 1` prints it."


class DagError(StorageError):
    remedy_text = (
        "The content was made wrongly at its source; ask for it to be added again with profile unixfs-v1-2025."
    )


class WrongKindError(DagError):
    remedy_text = "Use the file call for a file and the directory call for a directory."


class BlockNotFoundError(StorageError):
    remedy_text = "Check the CID, and that the party who added it is online and still pins it."


class BlockTamperedError(StorageError):
    remedy_text = "Nothing of it was used. Fetch again from another source; if it was local, check the disk."


class BlockTooLargeError(StorageError):
    remedy_text = "Split the content: files added through `add_file` are cut into blocks of 1 MiB."


class BlockPinnedError(StorageError):
    remedy_text = "Unpin the block for every owner first."


class BudgetExceededError(StorageError):
    remedy_text = "If the content is expected to be this large, pass a larger Budget."


class StoreFullError(StorageError):
    remedy_text = (
        "Run gc, unpin what is no longer needed, raise the quota or free disk space; what was stored is untouched."
    )


class StoreCorruptError(StorageError):
    remedy_text = "Stop the process and rebuild the index from the verified blocks with `rebuild_index(root)`."


class StoreFsyncError(StorageError):
    remedy_text = "The disk did not keep a write. Stop this process, check the disk, then start again."


class StoreAccessError(StorageError):
    remedy_text = "Check that the path exists and that this user may read and write it."


class SourceError(StorageError):
    remedy_text = "Try again later, or name another source."


class UnsafePathError(StorageError):
    remedy_text = "Rename the entry, or export to a path that does not exist yet."


class LinkRefusedError(UnsafePathError):
    remedy_text = "Replace links, devices, sockets and pipes with regular files."


class ArchiveError(StorageError):
    remedy_text = "Make the archive again as plain tar with regular files and folders only."
