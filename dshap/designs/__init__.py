"""Designs: which coalitions are evaluated, and how their values become attributions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dshap.designs.exact import ExactDesign, exact
from dshap.designs.kernelshap import KernelShapDesign, kernelshap
from dshap.designs.kriging import kriging
from dshap.designs.kriging_design import KrigingDesign
from dshap.designs.kriging_list import MAX_KRIGED, MAX_KRIGED_PLAYERS
from dshap.designs.permutation import PermutationDesign, permutation
from dshap.types import Design

__all__ = [
    "MAX_KRIGED",
    "MAX_KRIGED_PLAYERS",
    "ExactDesign",
    "KernelShapDesign",
    "KrigingDesign",
    "PermutationDesign",
    "exact",
    "kernelshap",
    "kriging",
    "permutation",
    "restored",
]

_KINDS: Mapping[str, Any] = {
    "exact": ExactDesign,
    "kernelshap": KernelShapDesign,
    "kriging": KrigingDesign,
    "permutation": PermutationDesign,
}


def restored(fingerprint: Mapping[str, Any]) -> Design:
    """The design whose `fingerprint` this is (lists of a JSON file stand for tuples)."""
    parameters = {
        n: tuple(value) if isinstance(value, list) else value for n, value in fingerprint.items() if n != "design"
    }
    design: Design = _KINDS[fingerprint["design"]](**parameters)
    return design
