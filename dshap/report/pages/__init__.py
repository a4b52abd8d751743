"""A report of a store as one HTML page: what was explained, how sure it is, its figures and its rows."""

from dshap.core.faces import lazy_face

__getattr__, __dir__, __all__ = lazy_face(__name__)
