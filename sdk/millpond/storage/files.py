"""Files and folders in a store: the calls most users need."""

from millpond.storage.add import add_bytes, add_directory, add_file, add_stream
from millpond.storage.read import export_directory, export_file, iter_file, list_directory, read_bytes

__all__ = [
    "add_bytes",
    "add_directory",
    "add_file",
    "add_stream",
    "export_directory",
    "export_file",
    "iter_file",
    "list_directory",
    "read_bytes",
]
