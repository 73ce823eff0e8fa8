"""What an entry point says when the libraries of its extra are not installed."""

from __future__ import annotations

import importlib.util
import sys

EXIT_MISSING_EXTRA = 3


def missing_modules(modules: tuple[str, ...]) -> list[str]:
    """Those of the top-level `modules` that cannot be imported here; none is imported to find out."""
    return [name for name in modules if importlib.util.find_spec(name) is None]


def require_extra(extra: str, modules: tuple[str, ...]) -> None:
    """Returns when all top-level `modules` are installed; else prints the install line of `extra` and exits with 3."""
    missing = missing_modules(modules)
    if not missing:
        return
    print(
        f"error: this command needs {', '.join(missing)}, which comes with the extra '{extra}' of millpond.\n"
        f"remedy: {sys.executable} -m pip install 'millpond[{extra}]'",
        file=sys.stderr,
    )
    raise SystemExit(EXIT_MISSING_EXTRA)
