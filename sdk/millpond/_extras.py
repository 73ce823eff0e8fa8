"""What an entry point says when the libraries of its extra are not installed."""

from __future__ import annotations

import importlib.util
import sys

from millpond.protocol.errors import ConfigError


class ExtraMissingError(ConfigError):
    """Libraries that this command needs are not installed."""


def missing_modules(modules: tuple[str, ...]) -> list[str]:
    """Those of the top-level `modules` that cannot be imported here; none is imported to find out."""
    return [name for name in modules if importlib.util.find_spec(name) is None]


def require_extra(extra: str, modules: tuple[str, ...]) -> None:
    """Returns when all top-level `modules` are installed; else raises `ExtraMissingError`, whose remedy is the install line of `extra`."""
    missing = missing_modules(modules)
    if missing:
        raise ExtraMissingError(
            f"this command needs {', '.join(missing)}, which comes with the extra '{extra}' of millpond",
            remedy=f"{sys.executable} -m pip install 'millpond[{extra}]'",
            missing=missing,
        )
