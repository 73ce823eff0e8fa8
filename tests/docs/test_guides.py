"""The guides, followed literally: every marked block typed into one shell, on a stack or chain of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from millpond.chain import devnet
from millpond.chain.errors import DevnetError

HERE = Path(__file__).parent
GUIDES = HERE.parents[1] / "docs/guides"
sys.path.insert(0, str(HERE))
import guides  # noqa: E402

CHECKED = ("renter.md", "dapp.md", "operator.md")
Following = dict[str, Future[None]]
# The reader's ports may be taken here, and the tests must not depend on an engine.
BEFORE = """
millpond() {
    if [ "$1 ${2:-}" = "dev up" ]; then
        command millpond "$@" --launcher process --chain-port 0 --node-port 0
    else
        command millpond "$@"
    fi
}
"""
AFTER = 'command millpond dev down; for pid in $(cat pids 2>/dev/null); do kill "$pid" || true; done'


@pytest.fixture(scope="module")
def following(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Following]:
    """The guides of the selected tests, all under way at once: they mostly wait for blocks."""
    try:
        anvil = devnet.find_anvil()
    except DevnetError as error:
        pytest.skip(f"{error} ({error.remedy})")
    selected = [name for name in CHECKED if any(item.name.endswith(f"works[{name}]") for item in request.session.items)]
    with ThreadPoolExecutor(len(selected)) as threads:
        yield {name: threads.submit(follow, name, tmp_path_factory.mktemp("guide"), anvil) for name in selected}


def follow(name: str, folder: Path, anvil: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("MILLPOND_")}
    env |= {
        "HOME": str(folder),
        "MILLPOND_HOME": str(folder / "home"),
        "PATH": f"{Path(sys.executable).parent}:{env['PATH']}",
        "ANVIL": str(anvil),
        "CHECKOUT": str(HERE.parents[1]),
        "PYTHON": sys.executable,
    }
    guides.follow(guides.read((GUIDES / name).read_text()), folder, env, BEFORE, AFTER)


@pytest.mark.parametrize("name", CHECKED)
def test_blocks_of_a_guide_are_run_or_say_why_not(name: str) -> None:
    found = guides.read((GUIDES / name).read_text())

    assert found.unmarked == []
    assert found.steps
    assert all(len(why) > 10 for why in found.left_out.values())


@pytest.mark.anvil
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", CHECKED)
def test_guide_followed_literally_works(name: str, following: Following) -> None:
    following[name].result()


def test_follow_of_a_failing_step_names_its_line(tmp_path: Path) -> None:
    text = "a\n<!-- run -->\n```sh\necho fine\n```\n\n<!-- run -->\n```sh\necho wrong; false\n```\n"

    with pytest.raises(AssertionError, match="line 7 ended with 1: wrong"):
        guides.follow(guides.read(text), tmp_path, dict(os.environ), "", "true")


def test_follow_of_a_step_that_shows_something_else_fails(tmp_path: Path) -> None:
    text = "<!-- run, shows seven -->\n```sh\necho six\n```\n"

    with pytest.raises(AssertionError, match="does not show 'seven'"):
        guides.follow(guides.read(text), tmp_path, dict(os.environ), "", "true")


def test_read_sorts_files_reasons_and_unmarked_blocks() -> None:
    text = "<!-- file a.py -->\n```python\n1\n```\n<!-- not run: because -->\n```sh\nx\n```\n\n```sh\ny\n```\n<!-- test: z -->\n"
    found = guides.read(text)

    assert found.files == {"a.py": "1\n"}
    assert list(found.left_out.values()) == ["because"]
    assert found.unmarked == [10]
    assert [step.text for step in found.steps] == ["z\n"]
