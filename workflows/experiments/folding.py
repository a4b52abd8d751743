"""Trained networks without what only training needs."""

from __future__ import annotations

import copy

from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

__all__ = ["folded"]

BATCH_NORMS = nn.BatchNorm1d | nn.BatchNorm2d


def folded(network: nn.Module) -> nn.Sequential:
    """The layers of a trained network, each normalisation inside the convolution before it,
    dropouts left out."""
    layers: list[nn.Module] = []
    for layer in copy.deepcopy(network).eval().children():
        if isinstance(layer, BATCH_NORMS):
            layers[-1] = fuse_conv_bn_eval(layers[-1], layer)
        elif not isinstance(layer, nn.Dropout):
            layers.append(layer)
    return nn.Sequential(*layers)
