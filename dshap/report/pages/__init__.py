"""A report of a store as one HTML page: what was explained, its accuracy, figures and single rows."""

from dshap.core.faces import lazy_face

__getattr__, __dir__, __all__ = lazy_face(__name__)
