"""Parts of `examples/demo.py`: what it reads back from the chain, and how it shows it."""
