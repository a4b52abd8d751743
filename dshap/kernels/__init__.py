"""Kernels for kernel models and observational values, and the features that approximate them."""

from dshap.core.faces import lazy_face

__getattr__, __dir__, __all__ = lazy_face(__name__)
