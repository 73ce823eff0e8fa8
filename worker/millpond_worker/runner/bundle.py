"""The folder that is mounted read-only into every warm container: the runner and the very files of the value codec it shares.

<folder>/start.py                          entry: python3 -I start.py <socket> <code folder>
<folder>/lib/millpond_runner/*.py          the guest package
<folder>/lib/millpond/__init__.py          runner/shim.py
<folder>/lib/millpond/protocol/*.py        errors.py and values.py of the SDK
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

import millpond.protocol.errors
import millpond.protocol.values

HERE = Path(__file__).parent
GUEST_PATH = "/opt/millpond"
START = """import sys
sys.path.insert(0, __file__[: -len("start.py")] + "lib")
from millpond_runner.loop import main
main(sys.argv[1], sys.argv[2])
"""


def bundle_files() -> dict[str, bytes]:
    """Every file of the folder by its relative path."""
    files = {"start.py": START.encode(), "lib/millpond/protocol/__init__.py": b""}
    for path in sorted((HERE / "guest").glob("*.py")):
        files[f"lib/millpond_runner/{path.name}"] = path.read_bytes()
    files["lib/millpond/__init__.py"] = (HERE / "shim.py").read_bytes()
    for module in (millpond.protocol.errors, millpond.protocol.values):
        path = Path(str(module.__file__))
        files[f"lib/millpond/protocol/{path.name}"] = path.read_bytes()
    return files


def write_bundle(parent: Path) -> Path:
    """Writes the folder under `parent`, named by its content, unless it is there; readable by any container's user."""
    files = bundle_files()
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
    folder = parent / f"runner-{digest}"
    if folder.is_dir():
        return folder
    parent.mkdir(parents=True, exist_ok=True)
    draft = Path(
        tempfile.mkdtemp(prefix=".runner-", dir=parent)
    )  # containers start at the same time: each writes its own
    for name, body in files.items():
        target = draft / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(body)
        target.chmod(0o444)
    for path in (draft, *draft.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    try:
        draft.rename(folder)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
    return folder
