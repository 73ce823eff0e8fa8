"""`python -m millpond` is the command `millpond`."""

from millpond.cli import main

main()
