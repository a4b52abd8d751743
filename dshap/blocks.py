"""Coalitions, rows and attributions by the block, for designs and attributors of one's own; the
public name of `dshap.core.blocks`."""

from dshap.core.blocks import *  # noqa: F403
from dshap.core.blocks import __all__ as __all__
