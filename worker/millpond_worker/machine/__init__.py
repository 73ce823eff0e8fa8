"""The worker's rules: leases and attempts as pure machines. Event in, commands out; no clock, no socket, no randomness."""
