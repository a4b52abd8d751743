"""Predictors of functions, linear models and expansions, with names and checks."""

from dshap.core.faces import lazy_face

__getattr__, __dir__, __all__ = lazy_face(__name__)
