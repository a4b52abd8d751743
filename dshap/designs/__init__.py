"""Designs: which coalitions are evaluated, and how their values become attributions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dshap.designs.closed_form import ClosedFormDesign
from dshap.designs.exact import ExactDesign, exact
from dshap.designs.kernelshap import KernelShapDesign, kernelshap
from dshap.designs.permutation import PermutationDesign, permutation
from dshap.types import Design

__all__ = [
    "ClosedFormDesign",
    "ExactDesign",
    "KernelShapDesign",
    "PermutationDesign",
    "exact",
    "kernelshap",
    "permutation",
    "restored",
]

_KINDS: Mapping[str, Any] = {
    "closed_form": ClosedFormDesign,
    "exact": ExactDesign,
    "kernelshap": KernelShapDesign,
    "permutation": PermutationDesign,
}


def restored(fingerprint: Mapping[str, Any]) -> Design:
    """The design whose `fingerprint` this is (lists of a JSON file stand for tuples)."""
    parameters = {n: tuple(own) if isinstance(own, list) else own for n, own in fingerprint.items() if n != "design"}
    design: Design = _KINDS[fingerprint["design"]](**parameters)
    return design
