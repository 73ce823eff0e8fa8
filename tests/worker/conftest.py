"""Makes the worker's test world importable: `worker_world`."""

import sys
from pathlib import Path

import hypothesis  # noqa: F401 - loaded here, since loading it late, deep in a report, trips Python 3.11.7

sys.path.insert(0, str(Path(__file__).parent))
