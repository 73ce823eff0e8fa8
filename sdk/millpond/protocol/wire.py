"""Reads and writes messages as JSON at the edge of a process: strict, nothing extra, limited in size.

Bytes travel as base64, amounts and integers beyond 32 bits of signed types as decimal strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from millpond.protocol.errors import InputError
from millpond.protocol.link import NodeMessage, WorkerMessage

MAX_MESSAGE_BYTES = 8 << 20
FRAME_BYTES = 1 << 20
MAX_SHOWN = 5
T = TypeVar("T")
# Made once: two annotations with equal fields are different keys of the cache of adapters.
_WORKER_MESSAGE: Any = Annotated[WorkerMessage, Field(discriminator="kind")]
_NODE_MESSAGE: Any = Annotated[NodeMessage, Field(discriminator="kind")]
_WORKER_MESSAGES: Any = list[_WORKER_MESSAGE]
_NODE_MESSAGES: Any = list[_NODE_MESSAGE]


class WireError(InputError):
    remedy_text = "Send JSON with exactly the fields of the message; its schema is in docs/reference/rest.md."


class MessageTooLargeError(InputError):
    remedy_text = "Send less at once: values above 64 KiB travel by CID, tasks at most 256 in one submission."


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """The adapter of a type, built once per type object: an `Annotated` written in the call would be a new one every time."""
    return TypeAdapter(kind)


def read(kind: type[T], data: bytes | str, limit: int = MAX_MESSAGE_BYTES) -> T:
    """Reads a message of type `kind`; raises `WireError` or `MessageTooLargeError`, whatever the bytes are."""
    return _read(kind, data, limit)  # type: ignore[no-any-return]


def read_worker_message(data: bytes | str) -> WorkerMessage:
    return _read(_WORKER_MESSAGE, data, MAX_MESSAGE_BYTES)  # type: ignore[no-any-return]


def read_node_message(data: bytes | str) -> NodeMessage:
    return _read(_NODE_MESSAGE, data, MAX_MESSAGE_BYTES)  # type: ignore[no-any-return]


def read_worker_messages(data: bytes | str) -> list[WorkerMessage]:
    """One frame: a message, or an array of them."""
    return _read_frame(_WORKER_MESSAGE, _WORKER_MESSAGES, data)  # type: ignore[no-any-return]


def read_node_messages(data: bytes | str) -> list[NodeMessage]:
    return _read_frame(_NODE_MESSAGE, _NODE_MESSAGES, data)  # type: ignore[no-any-return]


def frames(messages: Iterable[bytes]) -> Iterator[bytes]:
    """Written messages in as few frames as hold them: one alone as it is, more as an array of about a MiB at most."""
    gathered, size = list[bytes](), 0
    for message in messages:
        if gathered and size + len(message) > FRAME_BYTES:
            yield _frame(gathered)
            gathered, size = [], 0
        gathered.append(message)
        size += len(message)
    if gathered:
        yield _frame(gathered)


def _frame(messages: list[bytes]) -> bytes:
    return messages[0] if len(messages) == 1 else b"[" + b",".join(messages) + b"]"


def _read_frame(kind: Any, many: Any, data: bytes | str) -> Any:
    is_array = data[:1] in (b"[", "[")
    return _read(many, data, MAX_MESSAGE_BYTES) if is_array else [_read(kind, data, MAX_MESSAGE_BYTES)]


def write(message: object, kind: Any = None) -> bytes:
    """JSON bytes of a message; `kind` for containers of messages."""
    chosen: Any = kind or type(message)
    return adapter(chosen).dump_json(message)


def _read(kind: Any, data: bytes | str, limit: int) -> Any:
    if len(data) > limit:
        raise MessageTooLargeError(f"{len(data)} bytes, at most {limit} are read", size=len(data), limit=limit)
    try:
        return adapter(kind).validate_json(data)
    except ValidationError as error:
        raise WireError(_explain(error)) from None
    except InputError as error:
        raise WireError(error.message) from None
    except (RecursionError, UnicodeError) as error:
        raise WireError(f"unreadable JSON: {error}") from None


def _explain(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False, include_context=False)
    shown = [f"{'.'.join(str(part) for part in item['loc']) or 'message'}: {item['msg']}" for item in found[:MAX_SHOWN]]
    more = f" (+{len(found) - MAX_SHOWN} more)" if len(found) > MAX_SHOWN else ""
    return "; ".join(shown) + more
