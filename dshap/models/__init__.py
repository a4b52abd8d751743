"""Kernel machines, fitted as sums over rows and reduced to expansions."""

from dshap.core.faces import lazy_face

__getattr__, __dir__, __all__ = lazy_face(__name__)
