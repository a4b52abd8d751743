"""Compiled loops with their formulas, in numba and numpy; tests/loops has plain versions of them."""

from dshap.core.faces import lazy_face

__getattr__, __dir__, __all__ = lazy_face(__name__)
