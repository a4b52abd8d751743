"""Sinks: the attributions of a finished cube as a table of a database, or in another place."""

from dshap.core.faces import lazy_face

__getattr__, __dir__, __all__ = lazy_face(__name__)
