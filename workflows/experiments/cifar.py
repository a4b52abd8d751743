"""CIFAR-10, deer against horse: the comparison of Figures 3 and 5.

python -m workflows.experiments.cifar --data FOLDER --out FOLDER [--instances 1000] [--threads N]
[--tiny]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from workflows.experiments.commands import SEED, explain_images, options, tensor_of, trained
from workflows.experiments.data import Images, cifar, made_up_images
from workflows.experiments.networks import photo_network
from workflows.experiments.training import shifted_and_mirrored, train

EPOCHS = 40
HELD_OUT = 0.1
"""Of the training images, by which the pass is chosen that is kept."""


def main(argv: Sequence[str] | None = None) -> None:
    """Train the network, explain test images by every method, and write what came out."""
    given = options(__doc__, argv)
    data = made_up_images((8, 8, 3), ("deer", "horse"), 200) if given.tiny else cifar(given.data)
    network = trained(
        photo_network(*data.shape[:2]),
        given.out / "network.pt",
        lambda fresh: trained_on(fresh, data),
    )
    explain_images("cifar", "CIFAR-10, deer against horse", data, network, given)


def trained_on(network: nn.Module, data: Images) -> nn.Module:
    """The network after `EPOCHS` passes, or after fewer where it was better on the images held
    out."""
    order = np.random.default_rng(SEED).permutation(len(data.x_train))
    x, y, n_held_out = (
        tensor_of(data)[torch.as_tensor(order)],
        data.y_train[order],
        round(HELD_OUT * len(order)),
    )
    return train(
        network, x, y, epochs=EPOCHS, rate=2e-3, change=shifted_and_mirrored, n_held_out=n_held_out
    )


if __name__ == "__main__":
    main()
