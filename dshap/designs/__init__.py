"""Designs: which coalitions are evaluated, and how their values become attributions."""

from dshap.core.faces import lazy_face

__getattr__, __dir__, __all__ = lazy_face(__name__)
