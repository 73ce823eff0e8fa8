"""Errors of launchers.

LaunchError
├── EngineUnavailableError     the container engine does not answer
├── EngineRefusedError         the engine answered with an error
├── RuntimeVulnerableError     the engine's runtime has a known way out of containers
├── ImageMissingError          no such image here, and it cannot be pulled
├── ImageRefusedError          the provider's policy refuses the image
├── RunnerStartError           the container started but its runner did not report
├── ContainerGoneError         the container is not there any more
├── RenterNotAllowedError      this launcher refuses strangers
├── TaskOutOfMemoryError       the task was killed at its memory limit
├── TaskTimeoutError           the task ran over its time limit
├── TaskLostError              the container ended under the task
├── TaskCancelledError         the task was cancelled
└── OutputTooLargeError        the task wrote too much, or other than regular files
"""

from __future__ import annotations

from millpond.protocol.errors import LaunchError


class EngineUnavailableError(LaunchError):
    """Fields: `engine`, `address`."""

    remedy_text = "Start the engine (`systemctl start docker`) and let this user reach its socket, or use `--launcher process` for development."


class EngineRefusedError(LaunchError):
    """Fields: `status`, `reason`."""

    remedy_text = "Read the engine's message; `millpond-worker doctor` checks what the launcher needs."


class RuntimeVulnerableError(LaunchError):
    """Fields: `reason`."""

    remedy_text = "Upgrade runc (1.1.12 or newer) and the NVIDIA container toolkit (1.17.8 or newer)."


class ImageMissingError(LaunchError):
    """Fields: `image`."""

    remedy_text = (
        "Check the image's name and registry, or load it with `docker pull`, `docker load` or `docker import`."
    )


class ImageRefusedError(LaunchError):
    """Fields: `image`, `digest`."""

    remedy_text = "Use an image that the provider allows, or rent from another one."


class RunnerStartError(LaunchError):
    """Fields: `image`, `reason`."""

    remedy_text = "Use an image with Python 3.9 or newer as `python3` on its PATH, or run a container task instead."


class CommandStartError(LaunchError):
    """Fields: `image`, `command`, `reason`."""

    remedy_text = "Check that the command exists inside the image, or give it by its full path there."


class ContainerGoneError(LaunchError):
    """Fields: `container`."""

    remedy_text = "Start a new container for the lease."


class RenterNotAllowedError(LaunchError):
    """Fields: `renter`."""

    remedy_text = (
        "The process launcher is for development: add the renter to its allow-list, or use the docker launcher."
    )


class TaskOutOfMemoryError(LaunchError):
    """Fields: `task`, `limit_mib`."""

    remedy_text = "Rent a slice with more memory, or work on smaller pieces."


class TaskTimeoutError(LaunchError):
    """Fields: `task`, `limit_s`."""

    remedy_text = "Raise the task's time limit, or split the task."


class TaskLostError(LaunchError):
    """Fields: `task`."""

    remedy_text = "The task is run again elsewhere; if it is lost each time, look at the worker's log."


class TaskCancelledError(LaunchError):
    """Fields: `task`."""

    remedy_text = "Submit the task again if its result is still wanted."


class OutputTooLargeError(LaunchError):
    """Fields: `task`, `limit_mib`."""

    remedy_text = (
        "Write less, and only regular files, to the folder named by MILLPOND_OUT, or ask for a larger output limit."
    )
