"""The attribution cube in Zarr: its layout, writing by workers, and reading while it grows."""

from dshap.core.faces import lazy_face

__getattr__, __dir__, __all__ = lazy_face(__name__)
