"""Where leases go: the port `Policy`, and the first policy. Pure: deltas in, decisions out."""
