"""Designs: which coalitions are evaluated, and how their values become attributions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dshap.designs.exact import ExactDesign, exact
from dshap.designs.kernelshap import KernelShapDesign, kernelshap

__all__ = ["ExactDesign", "KernelShapDesign", "exact", "kernelshap", "restored"]

_KINDS: Mapping[str, Any] = {"exact": ExactDesign, "kernelshap": KernelShapDesign}


def restored(fingerprint: Mapping[str, Any]) -> ExactDesign | KernelShapDesign:
    """The design whose `fingerprint` this is (lists of a JSON file stand for tuples)."""
    parameters = {n: tuple(own) if isinstance(own, list) else own for n, own in fingerprint.items() if n != "design"}
    design: ExactDesign | KernelShapDesign = _KINDS[fingerprint["design"]](**parameters)
    return design
