"""CIFAR-10, deer against horse: the comparison of Figures 3 and 5.

python -m workflows.experiments.cifar --data FOLDER --out FOLDER [--instances 1000] [--threads N] [--tiny]
"""

from __future__ import annotations

from collections.abc import Sequence

from workflows.experiments.commands import explain_images, options, tensor_of, trained
from workflows.experiments.data import cifar, made_up_images
from workflows.experiments.networks import mirrored, photo_network, train

EPOCHS = 16


def main(argv: Sequence[str] | None = None) -> None:
    """Train the network, explain test images by every method, and write what came out."""
    given = options(__doc__, argv)
    data = made_up_images((8, 8, 3), ("deer", "horse"), 200) if given.tiny else cifar(given.data)
    network = trained(
        photo_network(*data.shape[:2]),
        given.out / "network.pt",
        lambda fresh: train(fresh, tensor_of(data), data.y_train, epochs=EPOCHS, change=mirrored),
    )
    explain_images("cifar", "CIFAR-10, deer against horse", data, network, given)


if __name__ == "__main__":
    main()
