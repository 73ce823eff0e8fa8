"""Pure: what the engine's answers about itself mean for safety and limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .port import Finding

SAFE_RUNC = (1, 1, 12)
SAFE_TOOLKIT = (1, 17, 8)
PATCHED_RUNC = ("1.1.5+ds1-1+deb12u",)  # Debian 12 carries the fix of CVE-2024-21626 in this version
REQUIRED_LIMITS = ("MemoryLimit", "CpuCfsQuota", "PidsLimit")
CDI_ENGINE = (25, 0, 0)


def numbers(version: str) -> tuple[int, ...]:
    """The first three numbers of a version, or an empty tuple where there are none."""
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(part or 0) for part in match.groups()) if match else ()


def vulnerable_runtime(version: Mapping[str, Any]) -> str:
    """Why the engine's runtime must not run strangers' code, or an empty string. Source: CVE-2024-21626, CVE-2025-23266."""
    for component in version.get("Components") or ():
        found, commit = str(component.get("Version", "")), str((component.get("Details") or {}).get("GitCommit", ""))
        if component.get("Name") == "runc" and () < numbers(found) < SAFE_RUNC and not commit.startswith(PATCHED_RUNC):
            return f"runc {found} leaks descriptors of the host (CVE-2024-21626)"
        if component.get("Name") == "nvidia-container-toolkit" and () < numbers(found) < SAFE_TOOLKIT:
            return f"NVIDIA container toolkit {found} trusts an image's environment (CVE-2025-23266)"
    return ""


def findings_of(version: Mapping[str, Any], info: Mapping[str, Any]) -> list[Finding]:
    """Everything `doctor` says about the engine."""
    found = [Finding("ok", "docker", f"Docker {version.get('Version')}, cgroup v{info.get('CgroupVersion', '1')}")]
    reason = vulnerable_runtime(version)
    if reason:
        found.append(Finding("fail", "runtime", reason, "Upgrade the container runtime, or allow it by hand."))
    found += [
        Finding("fail", "limits", f"the kernel does not enforce {name}", "Enable the cgroup controller.")
        for name in REQUIRED_LIMITS
        if not info.get(name)
    ]
    if not info.get("SwapLimit", True):
        found.append(Finding("warn", "limits", "swap is not limited", "Boot with swapaccount=1, or turn swap off."))
    if not any("seccomp" in option for option in info.get("SecurityOptions") or ()):
        found.append(
            Finding("fail", "seccomp", "Docker runs without seccomp", "Start the engine with its default profile.")
        )
    if numbers(str(version.get("Version"))) < CDI_ENGINE:
        found.append(
            Finding("warn", "gpu", "this Docker has no CDI: it cannot give GPUs to containers", "Upgrade to Docker 25.")
        )
    return found
