"""MNIST, 3 against 8: the comparison of Figures 3 and 4.

python -m workflows.experiments.mnist --data FOLDER --out FOLDER [--instances 1000] [--threads N]
[--tiny]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from torch import nn

from workflows.experiments.commands import explain_images, options, tensor_of, trained
from workflows.experiments.data import Images, made_up_images, mnist
from workflows.experiments.networks import digit_network
from workflows.experiments.training import train

EPOCHS = 8


def images_and_network(given: argparse.Namespace) -> tuple[Images, nn.Module]:
    """The images, and the network that was trained on them, or is now."""
    data = made_up_images((8, 8, 1), ("3", "8"), 200) if given.tiny else mnist(given.data)
    network = trained(
        digit_network(*data.shape[:2]),
        given.out / "network.pt",
        lambda fresh: train(fresh, tensor_of(data), data.y_train, epochs=EPOCHS),
    )
    return data, network


def main(argv: Sequence[str] | None = None) -> None:
    """Train the network, explain test images by every method, and write what came out."""
    given = options(__doc__, argv)
    data, network = images_and_network(given)
    explain_images("mnist", "MNIST, 3 against 8", data, network, given)


if __name__ == "__main__":
    main()
