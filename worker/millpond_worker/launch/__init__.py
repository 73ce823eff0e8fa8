"""Launchers: how a slice becomes a container (or, in development, a process) that runs a renter's tasks."""
