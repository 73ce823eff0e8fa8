"""dag-pb nodes in their one canonical form (https://ipld.io/specs/codecs/dag-pb/spec/)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from millpond.storage._protobuf import bytes_field, read_fields, varint_field
from millpond.storage.cid import Cid, cid_from_bytes, cid_to_bytes
from millpond.storage.errors import CidError, DagError

_DATA, _LINKS = 1, 2
_HASH, _NAME, _TSIZE = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Link:
    """A named edge. `dag_bytes` is the size of all blocks below it, as its maker claims."""

    cid: Cid
    name: str
    dag_bytes: int


@dataclass(frozen=True, slots=True)
class Node:
    links: tuple[Link, ...]
    data: bytes


def encode_node(links: Iterable[Link], data: bytes) -> bytes:
    """The block. Links come first, in the order given: a directory's maker sorts them by the bytes of their names."""
    parts = [bytes_field(_LINKS, _encode_link(link)) for link in links]
    parts.append(bytes_field(_DATA, data))
    return b"".join(parts)


def decode_node(block: bytes) -> Node:
    """Raises `DagError` on anything that is not dag-pb."""
    links: list[Link] = []
    data: bytes | None = None
    for number, value in read_fields(block):
        if not isinstance(value, bytes):
            raise DagError("a dag-pb node has no number fields", field=number)
        if number == _LINKS:
            links.append(_decode_link(value))
        elif number == _DATA and data is None:
            data = value
        else:
            raise DagError("a dag-pb node has an unknown or repeated field", field=number)
    return Node(tuple(links), data or b"")


def _encode_link(link: Link) -> bytes:
    return (
        bytes_field(_HASH, cid_to_bytes(link.cid))
        + bytes_field(_NAME, link.name.encode())
        + varint_field(_TSIZE, link.dag_bytes)
    )


def _decode_link(data: bytes) -> Link:
    cid, name, dag_bytes, last = None, "", 0, 0
    for number, value in read_fields(data):
        if number <= last:
            raise DagError("the fields of a dag-pb link are repeated or out of order", field=number)
        last = number
        match number, value:
            case 1, bytes():
                cid = _link_cid(value)
            case 2, bytes():
                name = _link_name(value)
            case 3, int():
                dag_bytes = value
            case _:
                raise DagError("a dag-pb link has an unknown field", field=number)
    if cid is None:
        raise DagError("a dag-pb link has no CID")
    return Link(cid, name, dag_bytes)


def _link_cid(value: bytes) -> Cid:
    try:
        return cid_from_bytes(value)
    except CidError as error:
        raise DagError(f"a link cannot be followed: {error.message}", **error.fields) from error


def _link_name(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise DagError("the name of a link is not UTF-8", name=value[:80].hex()) from None
