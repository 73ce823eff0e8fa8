"""The worker's agent: performs what the machines command, and tells them what happens."""
