"""Deployments: a pure planner, a write-ahead journal, what carries plans out, what compares the chain with the address book."""
