"""Public name of `dshap.tables`: readers of tables, and their census."""

from dshap.tables import *  # noqa: F403
from dshap.tables import __all__ as __all__
