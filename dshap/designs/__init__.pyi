from dshap.designs.exact import ExactDesign, exact
from dshap.designs.kernelshap import KernelShapDesign, kernelshap
from dshap.designs.kinds import KINDS, restored_design
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
