"""Tables: one opener, readers for each kind of rows, the census, categories and backgrounds."""

from dshap.core.faces import lazy_face

__getattr__, __dir__, __all__ = lazy_face(__name__)
