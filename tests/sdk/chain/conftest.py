"""Lets the tests of deployments import the chain they share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # deploy_chain
