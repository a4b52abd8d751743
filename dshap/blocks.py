"""Public name of `dshap.core.blocks`: blocks of coalitions, rows and attributions.

Designs and attributors of one's own are written with them.
"""

from dshap.core.blocks import *  # noqa: F403
from dshap.core.blocks import __all__ as __all__
