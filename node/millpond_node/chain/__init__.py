"""The chain as the node sees it: a port, the real one over `millpond.chain`, and a fake."""
