"""Results for people: rankings, one row broken down, pictures, pages, and the stages' costs."""

from dshap.core.faces import lazy_face

__getattr__, __dir__, __all__ = lazy_face(__name__)
