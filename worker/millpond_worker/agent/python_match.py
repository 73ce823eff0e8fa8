"""Whether the Python of an image is one a task asks for."""

from __future__ import annotations

import operator
import re

from millpond_worker.launch.port import Container

_TESTS = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}


def python_problem(wanted: str, container: Container | None) -> str:
    """Why the container's Python does not do; empty when it does. `wanted` is like `>=3.11,<3.14`; versions compare by their given parts."""
    if not wanted.strip() or container is None:
        return ""
    found = container.runner.python
    for clause in wanted.split(","):
        match = re.fullmatch(r"\s*(>=|<=|==|!=|>|<)\s*(\d+(?:\.\d+){0,2})\s*", clause)
        if match is None:
            return f"the task asks for Python {wanted!r}, which cannot be read; write it like >=3.11"
        version = tuple(int(part) for part in match[2].split("."))
        if not _TESTS[match[1]](found[: len(version)], version):
            shown = ".".join(str(part) for part in found)
            return f"the task asks for Python {wanted}, the image has {shown}; name an image that has it"
    return ""
