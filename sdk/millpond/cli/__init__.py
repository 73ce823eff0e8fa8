"""The command `millpond`. Each command's module is imported when it runs, so that `--help` stays fast."""

from __future__ import annotations

from millpond.cli._main import main

__all__ = ["main"]
