"""Networks of images, and a trained network as functions of rows of numbers."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from torch import Tensor, nn
from torch.nn import functional

from workflows.experiments.folding import folded
from workflows.experiments.text_networks import trimmed

__all__ = ["Classifier", "digit_network", "n_parameters", "photo_network"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def digit_network(height: int, width: int) -> nn.Module:
    """The paper's network of MNIST: convolutions 5 x 5 of 8 and 16 filters, a maximum of 2 x 2
    after each, dense."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * (height // 4) * (width // 4), 2),
    )  # fmt: skip


def photo_network(height: int, width: int, filters: tuple[int, ...] = (8, 16, 32)) -> nn.Module:
    """The paper's network of CIFAR-10 with a sixth of its filters: six convolutions 3 x 3, two
    dense layers.

    Every two convolutions are followed by a maximum of 2 x 2 and a dropout; `filters` are those of
    each two.  Each convolution is normalised over its batch, which the paper's is not said to be.
    """
    layers: list[nn.Module] = []
    before = 3
    for n in filters:
        for n_in in (before, n):
            layers += [nn.Conv2d(n_in, n, 3, padding=1, bias=False), nn.BatchNorm2d(n), nn.ReLU()]
        layers += [nn.MaxPool2d(2), nn.Dropout(0.1)]
        before = n
    n_inner = before * (height // 2 ** len(filters)) * (width // 2 ** len(filters))
    return nn.Sequential(
        *layers,
        nn.Flatten(),
        nn.Linear(n_inner, 256),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(256, 2),
    )


def n_parameters(network: nn.Module) -> int:
    """Numbers that training changes."""
    return sum(each.numel() for each in network.parameters())


class Classifier:
    """A trained network as dshap, LIME and the masking curves call it: rows (n, columns) of numbers
    in, numbers out.

    Parameters
    ----------
    network : nn.Module
        Gives logits (n, k).
    classes : tuple of str
        Names of the k classes.
    image : (height, width, channels) of the images that rows hold; None where they hold tokens
    batch : rows that the network sees at once
    """

    def __init__(
        self,
        network: nn.Module,
        classes: tuple[str, ...],
        image: tuple[int, int, int] | None,
        batch: int = 32,
    ) -> None:
        self.network = network.eval()
        if image is None:
            self.form = network.inference_form()
        else:
            # twice as fast as channels first
            self.form = folded(network).to(memory_format=torch.channels_last)
        self.classes_, self.image, self.batch = classes, image, batch
        self.n_evaluations, self.seconds = 0, 0.0

    def tensor(self, rows: Any) -> Tensor:
        """What the network takes: (n, channels, height, width), or tokens (n, length)."""
        if self.image is None:
            return trimmed(torch.as_tensor(np.asarray(rows, dtype=np.int64)))
        return self.pixels(torch.as_tensor(np.asarray(rows, dtype=np.float32)))

    def pixels(self, rows: Tensor) -> Tensor:
        """(n, channels, height, width) of rows (n, columns)."""
        assert self.image is not None
        return rows.reshape(-1, *self.image).permute(0, 3, 1, 2)

    def order(self, rows: FloatArray) -> IntArray:
        """(n,): positions of the rows, texts of near sizes beside each other: they go through the
        network together."""
        if self.image is not None:
            return np.arange(len(rows))
        return (
            self.form.sizes(torch.as_tensor(np.asarray(rows, dtype=np.int64)))
            .argsort(stable=True)
            .numpy()
        )

    def logits(self, rows: FloatArray) -> FloatArray:
        """(n, k); rows and seconds of the processor are counted."""
        started = time.process_time()
        order = self.order(rows)
        with torch.inference_mode():
            batches = np.split(order, range(self.batch, len(rows), self.batch))
            found = (
                torch.cat([self.form(self.tensor(rows[batch])) for batch in batches])
                .numpy()
                .astype(np.float64)
            )
        found[order] = found.copy()
        self.n_evaluations += len(rows)
        self.seconds += time.process_time() - started
        return found

    def probabilities(self, rows: FloatArray) -> FloatArray:
        """(n, k)"""
        return softmax(self.logits(rows), axis=1)

    def log_probabilities(self, rows: FloatArray) -> FloatArray:
        """(n, k)"""
        return log_softmax(self.logits(rows), axis=1)

    def predicted(self, rows: FloatArray) -> IntArray:
        """(n,): position of the likeliest class."""
        return self.logits(rows).argmax(axis=1)

    def slopes(self, rows: FloatArray, classes: IntArray) -> FloatArray:
        """(n, columns): the gradient of the log-probability of one class of each image, by its
        pixels."""
        parts = []
        for at in range(0, len(rows), self.batch):
            given = torch.as_tensor(
                np.asarray(rows[at : at + self.batch], dtype=np.float32)
            ).requires_grad_()
            found = functional.log_softmax(self.network(self.pixels(given)), dim=1)
            chosen = torch.as_tensor(classes[at : at + self.batch])
            (slope,) = torch.autograd.grad(found.gather(1, chosen[:, None]).sum(), given)
            parts.append(slope.numpy().astype(np.float64))
        return np.concatenate(parts)

    def accuracy(self, rows: FloatArray, labels: IntArray) -> float:
        """The part of the rows that are given their own class."""
        return float((self.predicted(rows) == labels).mean())
