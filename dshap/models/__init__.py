"""Kernel machines: fitted as sums over rows, reduced to one form."""

from dshap.models.expansion import KernelExpansion
from dshap.models.fourier import FourierExpansion
from dshap.models.ridge import KernelRidge
from dshap.models.ridge_sums import FitReport, TunedRidge

__all__ = ["FitReport", "FourierExpansion", "KernelExpansion", "KernelRidge", "TunedRidge"]
