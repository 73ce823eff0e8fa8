"""The page of all error codes, from the subclasses of `MillpondError`."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

from millpond.protocol.errors import MillpondError

PACKAGES = ("millpond", "millpond_node", "millpond_worker")
NOT_IMPORTED = ("__main__", ".guest", ".shim")
HEAD = """# Error codes

Written by `scripts/generate_reference.py` from the exceptions.

REST and `--json` show an error as `{"error": CODE, "message": WHAT AND WHY, "remedy": WHAT TO DO, "fields": {...}}`; the code is the
name of the exception in Python. A command ends with the exit code. An error may carry a remedy that fits its case better than the
one listed; those without one here always do, or their message says all there is. An error of a contract comes under its own name with
`Error` behind it and ends with 4; the remedies of these are on the pages of the [contracts](contracts/).
"""


def page() -> str:
    load_all()
    families = {kind: _below(kind) for kind in sorted(MillpondError.__subclasses__(), key=_order)}
    return HEAD + "".join(_family(kind, kinds) for kind, kinds in families.items())


def load_all() -> None:
    """Imports every module, so that every exception is known."""
    for package in PACKAGES:
        for found in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
            if not any(part in found.name for part in NOT_IMPORTED):
                import_module(found.name)


def _order(kind: type[MillpondError]) -> tuple[int, str, str]:
    """Two packages may name an error alike: the module makes the order the same in every run."""
    return kind.exit_code, kind.__name__, kind.__module__


def _below(kind: type[MillpondError]) -> list[type[MillpondError]]:
    found = {kind, *(item for child in kind.__subclasses__() for item in _below(child))}
    return sorted((item for item in found if item.__module__.partition(".")[0] in PACKAGES), key=_order)


def _family(kind: type[MillpondError], kinds: list[type[MillpondError]]) -> str:
    rows = "\n".join(_row(item) for item in kinds if not item.__name__.startswith("_"))
    return f"\n## {kind.__name__}\n\n| Code | Exit | Raised by | Meaning | Remedy |\n|---|---|---|---|---|\n{rows}\n"


def _row(kind: type[MillpondError]) -> str:
    text = "" if kind.__doc__ == MillpondError.__doc__ else inspect.cleandoc(kind.__dict__.get("__doc__") or "")
    cells = (f"`{kind.__name__}`", str(kind.exit_code), f"`{kind.__module__}`", text, kind.remedy_text)
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
