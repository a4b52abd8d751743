"""The pod security standard *restricted* of Kubernetes, with *baseline* which it includes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
"""The kinds of volumes that are allowed."""


def pods_of(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The specs of the pods of some objects: of Jobs and of CronJobs."""
    for each in objects:
        spec = each.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            yield spec["template"]["spec"]


def faults_of(pod: dict[str, Any]) -> list[str]:
    """What of a pod the standard refuses; empty where it takes the pod."""
    found = [name for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name)]
    for volume in pod.get("volumes", []):
        found += [f"volume {name}" for name in volume.keys() - {"name"} - VOLUMES]
    of_pod = pod.get("securityContext", {})
    found += [name for name in ("sysctls", "seLinuxOptions", "appArmorProfile") if name in of_pod]
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        of_it = container.get("securityContext", {})
        found += [
            f"{container['name']}: {fault}"
            for fault in _faults_of_container(container, of_pod, of_it)
        ]
    return found


def _faults_of_container(
    container: dict[str, Any], of_pod: dict[str, Any], own: dict[str, Any]
) -> Iterator[str]:
    both = {**of_pod, **own}
    if both.get("runAsNonRoot") is not True:
        yield "runAsNonRoot is not true"
    if both.get("runAsUser") == 0:
        yield "runAsUser is 0"
    if both.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield "seccompProfile is not RuntimeDefault"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation is not false"
    capabilities = own.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", []):
        yield "capabilities are not dropped"
    if set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
        yield "capabilities are added"
    if own.get("privileged") or own.get("procMount", "Default") != "Default":
        yield "it is privileged"
    if any("hostPort" in port for port in container.get("ports", [])):
        yield "it has a port of the host"
