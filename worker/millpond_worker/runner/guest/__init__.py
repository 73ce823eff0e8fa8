"""The runner: what a container executes. Standard library only, Python 3.9 syntax; it knows nothing of the worker but its frames."""
