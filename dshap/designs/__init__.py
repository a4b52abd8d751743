"""Designs: which coalitions are evaluated, and how their values become attributions."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, get_type_hints

from dshap.core.types import Design
from dshap.designs.exact import ExactDesign, exact
from dshap.designs.kernelshap import KernelShapDesign, kernelshap
from dshap.designs.kriging import MAX_KRIGED, MAX_KRIGED_PLAYERS, KrigingDesign, kriging
from dshap.designs.on_graphs.connected import ConnectedDesign, connected
from dshap.designs.on_graphs.connected_regression import (
    ConnectedRegressionDesign,
    connected_regression,
)
from dshap.designs.on_graphs.graphs import Graph, chain, graph_of, grid
from dshap.designs.on_graphs.local import LocalDesign, local
from dshap.designs.on_graphs.myerson import MyersonDesign, myerson
from dshap.designs.permutation import PermutationDesign, permutation

__all__ = [
    "KINDS",
    "MAX_KRIGED",
    "MAX_KRIGED_PLAYERS",
    "ConnectedDesign",
    "ConnectedRegressionDesign",
    "ExactDesign",
    "Graph",
    "KernelShapDesign",
    "KrigingDesign",
    "LocalDesign",
    "MyersonDesign",
    "PermutationDesign",
    "chain",
    "connected",
    "connected_regression",
    "exact",
    "graph_of",
    "grid",
    "kernelshap",
    "kriging",
    "local",
    "myerson",
    "permutation",
    "restored_design",
]

KINDS: Mapping[str, str] = {
    "exact": "dshap.designs.exact:exact",
    "kernelshap": "dshap.designs.kernelshap:kernelshap",
    "kriging": "dshap.designs.kriging:kriging",
    "permutation": "dshap.designs.permutation:permutation",
    "local": "dshap.designs.on_graphs.local:local",
    "connected": "dshap.designs.on_graphs.connected:connected",
    "connected_regression": "dshap.designs.on_graphs.connected_regression:connected_regression",
    "myerson": "dshap.designs.on_graphs.myerson:myerson",
}
"""Name of a design -> the function that makes it; job files take all of them."""


def restored_design(fingerprint: Mapping[str, Any]) -> Design:
    """The design with this `fingerprint`, which may have lists in place of tuples, as JSON has."""
    parameters = dict(fingerprint)
    module, _, name = KINDS[str(parameters.pop("design"))].partition(":")
    kind = get_type_hints(getattr(importlib.import_module(module), name))["return"]
    design: Design = kind.restored(parameters)
    return design
