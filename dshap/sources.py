"""Tables to open by hand: readers, what they read, and their census; the public name of
`dshap.tables`."""

from dshap.tables import *  # noqa: F403
from dshap.tables import __all__ as __all__
