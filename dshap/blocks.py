"""Public name of the blocks of dshap: those that are computed, and those of a finished cube.

Write your own designs and attributors with `dshap.core.blocks`; readers of a cube use
`finished_blocks`.
"""

from dshap.core.blocks import *  # noqa: F403
from dshap.core.blocks import __all__ as _of_core
from dshap.cube.blocks import FinishedBlock, finished_blocks

__all__ = [*_of_core, "FinishedBlock", "finished_blocks"]
