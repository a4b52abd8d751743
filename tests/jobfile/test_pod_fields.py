"""Names, labels and tolerations, as the API of Kubernetes takes and refuses them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from dshap.jobfile.pod_fields import (
    Annotations,
    Labels,
    LabelValue,
    NodeLabels,
    ObjectName,
    PodName,
    Quantity,
    amount_of,
)
from dshap.jobfile.pod_fields import Toleration as Taint


def is_taken(kind: Any, given: Any) -> bool:
    try:
        TypeAdapter(kind).validate_python(given)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize(
    ("kind", "given", "taken"),
    [
        (PodName, "a" * 50, True),
        (PodName, "a" * 51, False),  # the manifest adds an ending to it
        (PodName, "a.b", False),
        (ObjectName, "registry.example-pull", True),
        (ObjectName, "a" * 253, True),
        (ObjectName, "a" * 254, False),
        (ObjectName, "Pull", False),
        (ObjectName, "pull-", False),
        (ObjectName, "a..b", False),
        (ObjectName, "a.-b", False),
        (LabelValue, "", True),
        (LabelValue, "n1_Std.4", True),
        (LabelValue, "a" * 63, True),
        (LabelValue, "a" * 64, False),
        (LabelValue, "-a", False),
        (LabelValue, 3, False),
        (NodeLabels, {"kubernetes.io/arch": "amd64", "pool": ""}, True),
        (NodeLabels, {"Kubernetes.io/arch": "amd64"}, False),  # a domain has small letters
        (NodeLabels, {"a/b/c": "d"}, False),
        (NodeLabels, {"a..b/x": "d"}, False),
        (NodeLabels, {"a-.b/x": "d"}, False),
        (NodeLabels, {f"{'a' * 253}/x": "d"}, True),
        (NodeLabels, {f"{'a' * 254}/x": "d"}, False),
        (NodeLabels, {"app": "gpu"}, True),  # a label of a node, not of a pod
        (Labels, {"part": "mine"}, False),
        (Labels, {"job-name": "mine"}, False),  # Kubernetes itself has these
        (Labels, {"batch.kubernetes.io/job-name": "mine"}, False),
        (Annotations, {"example.com/note": "Any text: of any form."}, True),
        (Annotations, {"a note": "b"}, False),
        (Quantity, "500m", True),
        (Quantity, "2.5", True),
        (Quantity, 2, True),
        (Quantity, 0.5, True),
        (Quantity, True, False),
        (Quantity, "4Gi", True),
        (Quantity, "4GiB", False),
        (Quantity, "4gi", False),
        (Quantity, "", False),
        (Quantity, "-1", False),
        (Quantity, "1 Gi", False),
    ],
)
def test_names_and_labels(kind, given, taken):
    assert is_taken(kind, given) == taken


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"operator": "Exists"}, True),  # every taint
        ({"key": "a"}, True),  # "Equal" to an empty value
        ({"key": "a", "value": "b", "effect": "PreferNoSchedule"}, True),
        ({"key": "a", "effect": "NoExecute", "tolerationSeconds": 0}, True),
        ({}, False),
        ({"operator": "Equal", "value": "b"}, False),
        ({"key": "a", "operator": "Exists", "value": "b"}, False),
        ({"key": "a", "effect": "noschedule"}, False),
        ({"key": "a b", "value": "c"}, False),
        ({"key": "example.com/a", "value": "c"}, True),
        ({"key": "a", "tolerationSeconds": 60}, False),
        ({"key": "a", "toleration_seconds": 60, "effect": "NoExecute"}, False),
    ],
)
def test_tolerations(given, taken):
    """The rules are those that the API server checks."""
    assert is_taken(Taint, given) == taken


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ("999m", "1"),
        ("1", "1.001"),
        ("1023Mi", "1Gi"),
        ("1G", "1Gi"),
        ("1000M", "1Gi"),
        ("9", "1k"),
    ],
)
def test_quantities_are_compared_as_numbers(less, more):
    assert amount_of(less) < amount_of(more)


def test_equal_quantities():
    assert amount_of("1024Mi") == amount_of("1Gi")
    assert amount_of("1000m") == amount_of("1")
