from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from millpond_worker.runner.bundle import bundle_files, write_bundle


def test_write_bundle_by_many_at_once_is_whole_for_each(tmp_path: Path) -> None:
    expected = bundle_files()

    def write_and_read(_: int) -> dict[str, bytes]:
        folder = write_bundle(tmp_path)
        return {name: (folder / name).read_bytes() for name in expected}

    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(write_and_read, range(32)):
            assert found == expected
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_write_bundle_again_keeps_the_folder(tmp_path: Path) -> None:
    first = write_bundle(tmp_path)

    assert write_bundle(tmp_path) == first
    assert oct((first / "start.py").stat().st_mode & 0o777) == "0o444"
    assert oct(first.stat().st_mode & 0o777) == "0o755"
