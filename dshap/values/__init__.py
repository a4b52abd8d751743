"""Value functions: what a coalition of columns is worth for an instance."""

from dshap.values.background import Background
from dshap.values.gaussian import Gaussian
from dshap.values.interventional import KernelInterventional
from dshap.values.links import LINKS, ExpectedLogProbability, Logit, LogOdds, LogProbability
from dshap.values.loops import warm_up
from dshap.values.marginal import Marginal
from dshap.values.observational import KernelObservational
from dshap.values.players import Players
from dshap.values.quadrature import ProductQuadrature
from dshap.values.regression import ConditionalRegression
from dshap.values.subset_table import SubsetTable

__all__ = [
    "LINKS",
    "Background",
    "ConditionalRegression",
    "ExpectedLogProbability",
    "Gaussian",
    "KernelInterventional",
    "KernelObservational",
    "LogOdds",
    "LogProbability",
    "Logit",
    "Marginal",
    "Players",
    "ProductQuadrature",
    "SubsetTable",
    "warm_up",
]
