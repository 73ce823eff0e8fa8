"""Physical accelerators of this machine, and the slices carved from them."""
