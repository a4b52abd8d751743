from dshap.core.players import Players
from dshap.values.background import Background
from dshap.values.copula import Copula
from dshap.values.gaussian import Gaussian
from dshap.values.interventional import KernelInterventional
from dshap.values.linear_gaussian import LinearGaussian, LinearTransform
from dshap.values.links import LINKS, ExpectedLogProbability, Logit, LogOdds, LogProbability
from dshap.values.marginal import Marginal
from dshap.values.observational import KernelObservational
from dshap.values.regression import ConditionalRegression
from dshap.values.subset_table import SubsetTable
from dshap.values.tokens import Tokens
from dshap.values.trees import Trees

__all__ = [
    "LINKS",
    "Background",
    "ConditionalRegression",
    "Copula",
    "ExpectedLogProbability",
    "Gaussian",
    "KernelInterventional",
    "KernelObservational",
    "LinearGaussian",
    "LinearTransform",
    "LogOdds",
    "LogProbability",
    "Logit",
    "Marginal",
    "Players",
    "SubsetTable",
    "Tokens",
    "Trees",
]
