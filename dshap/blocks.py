"""Public name of the blocks of dshap: those that are computed, and those that a cube holds.

Designs and attributors of one's own are written with `dshap.core.blocks`; what reads a cube stands
on `finished_blocks`.
"""

from dshap.core.blocks import *  # noqa: F403
from dshap.core.blocks import __all__ as _of_core
from dshap.cube.blocks import FinishedBlock, finished_blocks

__all__ = [*_of_core, "FinishedBlock", "finished_blocks"]
