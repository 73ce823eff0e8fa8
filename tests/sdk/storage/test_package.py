from __future__ import annotations

import subprocess
import sys

import pytest

import millpond.storage
from millpond.protocol.errors import StorageError
from millpond.storage import errors


def modules_after(code: str) -> set[str]:
    out = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"],
        capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    return set(out.stdout.split())


def test_import_package_loads_nothing_heavy() -> None:
    loaded = modules_after("import millpond.storage")
    assert not loaded & {"numpy", "httpx", "anyio", "asyncio", "sqlite3", "pydantic", "millpond.storage.cid"}


def test_import_embedded_store_loads_no_client() -> None:
    loaded = modules_after("from millpond.storage import EmbeddedStore, add_file, export_directory")
    assert not loaded & {"numpy", "httpx", "tarfile"}


def test_all_is_sorted_and_every_name_loads() -> None:
    constants = [name for name in millpond.storage.__all__ if name.isupper()]
    rest = [name for name in millpond.storage.__all__ if not name.isupper()]
    assert rest == sorted(rest)
    assert constants == sorted(constants)
    assert all(getattr(millpond.storage, name) is not None for name in millpond.storage.__all__)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        _ = millpond.storage.nothing


def own_errors() -> list[type[StorageError]]:
    return [value for value in vars(errors).values() if isinstance(value, type) and value.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", own_errors())
def test_error_has_a_remedy_is_exported_and_in_the_tree(kind: type[StorageError]) -> None:
    assert issubclass(kind, StorageError)
    assert kind.remedy_text
    assert kind.__name__ in millpond.storage.__all__
    assert f"── {kind.__name__} " in (errors.__doc__ or "")
