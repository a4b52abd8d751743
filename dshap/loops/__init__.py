"""Compiled loops (numba and numpy alone), each by its formula; plain versions are in the tests."""

from dshap.core.faces import lazy_face

__getattr__, __dir__, __all__ = lazy_face(__name__)
