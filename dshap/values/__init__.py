"""Value functions: the value of a coalition of columns for an instance."""

from dshap.core.faces import lazy_face

__getattr__, __dir__, __all__ = lazy_face(__name__)
