"""The command `millpond-worker`."""

from millpond_worker.cli.main import main

__all__ = ["main"]
