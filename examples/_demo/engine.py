"""Where the tasks can run: in Docker, when an engine answers and has the task image."""

from __future__ import annotations

import os
from pathlib import Path

import httpx

TASK_IMAGE = "millpond-task:1"
SOCKET = "/var/run/docker.sock"
TIMEOUT_S = 5.0


def choose_launcher() -> tuple[str, str]:
    """`docker` or `process`, and why."""
    host = os.environ.get("DOCKER_HOST", f"unix://{SOCKET}")
    if not host.startswith("unix://"):
        return "process", f"DOCKER_HOST is {host}, and only an engine of this machine is used"
    path = host.removeprefix("unix://")
    if not Path(path).exists():
        return "process", f"there is no Docker engine at {path}"
    try:
        with httpx.Client(transport=httpx.HTTPTransport(uds=path), timeout=TIMEOUT_S) as client:
            status = client.get(f"http://docker/images/{TASK_IMAGE}/json").status_code
    except httpx.HTTPError as error:
        return "process", f"the Docker engine does not answer ({type(error).__name__})"
    if status != 200:
        return "process", f"the Docker engine has no image {TASK_IMAGE}; scripts/build_task_image.sh builds it"
    return "docker", f"the Docker engine has {TASK_IMAGE}"
