"""The development stack: chain, node and workers as processes on this machine, deployed by the code that deploys elsewhere."""
