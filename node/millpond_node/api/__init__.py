"""The node's HTTP surface."""
