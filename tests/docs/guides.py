"""Reads a guide as a reader does: the marked blocks, in order, typed into one shell.

A block of code in a guide has a comment above it:

    <!-- run -->                    typed into the shell; `<!-- run, shows TEXT -->`: and TEXT is in what it writes
    <!-- file NAME -->              saved as NAME before the shell starts
    <!-- not run: WHY -->           left out

`<!-- test: COMMAND -->` alone is typed by the tests only: what the reader has and the tests must make.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

PART = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*?) -->\n+)?```(?P<kind>\w*)\n(?P<text>.*?)^```$|^<!-- test: (?P<test>.*?) -->$",
    re.MULTILINE | re.DOTALL,
)
CUT = "@@ line "
LIMIT_S = 280


@dataclass(frozen=True, slots=True)
class Step:
    """What is typed at a line of a guide, and what it must show."""

    line: int
    text: str
    shows: str = ""


@dataclass(slots=True)
class Guide:
    steps: list[Step] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    left_out: dict[int, str] = field(default_factory=dict)
    unmarked: list[int] = field(default_factory=list)


def read(text: str) -> Guide:
    """The parts of a guide's source."""
    guide = Guide()
    for found in PART.finditer(text):
        line, mark = text.count("\n", 0, found.start()) + 1, found["mark"] or ""
        if found["test"]:
            guide.steps.append(Step(line, found["test"] + "\n"))
        elif mark == "run" or mark.startswith("run, shows "):
            guide.steps.append(Step(line, found["text"], mark.removeprefix("run").removeprefix(", shows ")))
        elif mark.startswith("file "):
            guide.files[mark.removeprefix("file ")] = found["text"]
        elif mark.startswith("not run: "):
            guide.left_out[line] = mark.removeprefix("not run: ")
        else:
            guide.unmarked.append(line)
    return guide


def script(guide: Guide, before: str) -> str:
    """One shell script of all steps; each is announced, so that one can tell where it stopped."""
    parts = ["set -euo pipefail", before]
    for step in guide.steps:
        parts += [f"echo '{CUT}{step.line}'", step.text]
    return "\n".join(parts)


def follow(guide: Guide, folder: Path, env: dict[str, str], before: str, after: str) -> dict[int, str]:
    """Runs the guide in `folder`, then `after` whatever happened; what each line's step wrote. Raises `AssertionError` naming the line."""
    for name, text in guide.files.items():
        (folder / name).write_text(text)
    try:
        done = _shell(script(guide, before), folder, env)
    finally:
        _shell(before + "\n" + after, folder, env)
    shown = _by_line(done.stdout)
    last = max(shown, default=0)
    assert done.returncode == 0, (
        f"the step at line {last} ended with {done.returncode}: {shown.get(last)}\n{done.stderr[-4000:]}"
    )
    for step in guide.steps:
        assert step.shows in shown[step.line], f"line {step.line} does not show {step.shows!r}: {shown[step.line]}"
    return shown


def _shell(text: str, folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def _by_line(output: str) -> dict[int, str]:
    parts = output.split(CUT)[1:]
    return {int(part.partition("\n")[0]): part.partition("\n")[2] for part in parts}
