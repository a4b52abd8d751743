"""Records of arrays, for states of value functions of one's own; the public name of
`dshap.core.records`."""

from dshap.core.records import *  # noqa: F403
from dshap.core.records import __all__ as __all__
