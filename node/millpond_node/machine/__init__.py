"""The node's rules as state machines: `handle(state, event, now) -> commands`. No clock, no I/O, no randomness."""
