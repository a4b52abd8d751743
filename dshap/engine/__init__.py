"""The engine: a plan, and the plain-loop and Dask executors that carry it out."""

from dshap.core.faces import lazy_face

__getattr__, __dir__, __all__ = lazy_face(__name__)
