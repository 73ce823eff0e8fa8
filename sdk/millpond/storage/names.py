"""Which names may become files. Refused everywhere, so that content made on one system is safe on every other."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from millpond.storage.errors import UnsafePathError

MAX_NAME_BYTES = 255
MAX_FOLDER_DEPTH = 128
_FORBIDDEN = re.compile(r"[/\\\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_RESERVED = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])[ ]*(\..*|:.*)?", re.IGNORECASE | re.DOTALL
)
_DRIVE = re.compile(r"[A-Za-z]:")


def check_name(name: str) -> str:
    """Return `name` if it can be one path component anywhere, else raise `UnsafePathError`."""
    reason = _why_unsafe(name)
    if reason:
        raise UnsafePathError(f"the name {name[:80]!r} {reason}", name=name[:MAX_NAME_BYTES], reason=reason)
    return name


def check_names(names: Iterable[str]) -> None:
    """Check each name, and that no two mean the same file where case or Unicode form is ignored."""
    seen: dict[str, str] = {}
    for name in names:
        key = collision_key(check_name(name))
        if key in seen:
            raise UnsafePathError(
                f"{name!r} and {seen[key]!r} are one file on some systems", name=name, other=seen[key]
            )
        seen[key] = name


def check_path(path: str) -> tuple[str, ...]:
    """The components of a relative path with `/` between them. Raises `UnsafePathError`."""
    parts = tuple(path.split("/"))
    if len(parts) > MAX_FOLDER_DEPTH:
        raise UnsafePathError(f"the path has more than {MAX_FOLDER_DEPTH} components", depth=len(parts))
    for part in parts:
        check_name(part)
    return parts


def collision_key(name: str) -> str:
    """Equal for names that some file system takes for one: case, Unicode form, invisible characters."""
    visible = "".join(char for char in name if unicodedata.category(char) != "Cf" and not "\ufe00" <= char <= "\ufe0f")
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", visible).casefold())


def _why_unsafe(name: str) -> str:
    if name in ("", ".", ".."):
        return "is not a name"
    if _FORBIDDEN.search(name):
        return "has a separator, control or direction character"
    try:
        if len(name.encode()) > MAX_NAME_BYTES:
            return f"is longer than {MAX_NAME_BYTES} bytes"
    except UnicodeEncodeError:
        return "is not valid Unicode"
    if name[-1] in ". " or not collision_key(name).strip(". "):
        return "ends with a dot or a space"
    if _RESERVED.fullmatch(name) or _DRIVE.match(name):
        return "is a device or drive on some systems"
    return ""
