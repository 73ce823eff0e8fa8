"""Which versions understand each other."""

from __future__ import annotations

from functools import cache

FALLBACK = "0.1.0"


@cache
def own_version() -> str:
    """The installed release."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("millpond")
    except PackageNotFoundError:
        return FALLBACK


def speaks_with(other: str, own: str | None = None) -> bool:
    """Same major version, and minor versions at most one apart."""
    mine, theirs = _parts(own or own_version()), _parts(other)
    return mine is not None and theirs is not None and mine[0] == theirs[0] and abs(mine[1] - theirs[1]) <= 1


def _parts(text: str) -> tuple[int, int] | None:
    major, _, rest = text.partition(".")
    minor = rest.partition(".")[0]
    is_plain = major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit() and len(text) <= 32
    return (int(major), int(minor)) if is_plain else None
