"""Designs: which coalitions are evaluated, and how their values become attributions."""

from dshap.designs.exact import ExactDesign, exact
from dshap.designs.kernelshap import KernelShapDesign, kernelshap

__all__ = ["ExactDesign", "KernelShapDesign", "exact", "kernelshap"]
