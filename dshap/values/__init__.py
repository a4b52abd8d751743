"""Value functions: what a coalition of columns is worth for an instance."""

from dshap.core.faces import lazy_face

__getattr__, __dir__, __all__ = lazy_face(__name__)
