"""Public name of `dshap.core.records`: records of arrays.

States of value functions of one's own are written with them.
"""

from dshap.core.records import *  # noqa: F403
from dshap.core.records import __all__ as __all__
