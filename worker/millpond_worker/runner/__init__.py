"""The standard-library-only program that runs inside a container, and the bundle of files mounted for it."""
