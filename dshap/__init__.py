"""dshap: Shapley values for models on tables that outgrow one machine.

attribution (n, d, k) = finish( sum over coalition tiles of  values (n, m, k) x score (m, d) )
"""

from __future__ import annotations

from dshap import designs, kernels, models, sources, values
from dshap.errors import DshapError

__version__ = "0.1.0"
__all__ = ["DshapError", "designs", "explain", "fit", "kernels", "models", "open_cube", "sources", "values"]

from dshap.api import explain, fit
from dshap.cube import open_cube
