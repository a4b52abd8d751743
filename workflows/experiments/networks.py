"""Networks of the experiments, their training, and a trained one as functions of rows of numbers."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from torch import Tensor, nn
from torch.nn import functional

from workflows.experiments.text_networks import trimmed

__all__ = ["Classifier", "digit_network", "n_parameters", "photo_network", "shifted_and_mirrored", "train"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
POOL = 50
"""Batches of texts that are sorted by their lengths together."""
SHIFT = 4
"""Pixels that an image is shifted by at most, while a network is trained."""


def digit_network(height: int, width: int) -> nn.Module:
    """The paper's network of MNIST: convolutions 5 x 5 of 8 and 16 filters, a maximum of 2 x 2 after each, dense."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * (height // 4) * (width // 4), 2),
    )  # fmt: skip


def photo_network(height: int, width: int, filters: tuple[int, ...] = (16, 32, 64)) -> nn.Module:
    """The paper's network of CIFAR-10 with a third of its filters: six convolutions 3 x 3, two dense layers.

    Every two convolutions are followed by a maximum of 2 x 2 and a dropout; `filters` are those of each two.  Each
    convolution is normalised over its batch, which the paper's is not said to be.
    """
    layers: list[nn.Module] = []
    before = 3
    for n in filters:
        for n_in in (before, n):
            layers += [nn.Conv2d(n_in, n, 3, padding=1, bias=False), nn.BatchNorm2d(n), nn.ReLU()]
        layers += [nn.MaxPool2d(2), nn.Dropout(0.1)]
        before = n
    n_inner = before * (height // 2 ** len(filters)) * (width // 2 ** len(filters))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(n_inner, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, 2))


def shifted_and_mirrored(images: Tensor) -> Tensor:
    """Images (n, channels, height, width), each moved by up to `SHIFT` pixels, and mirrored with a chance of one half.

    What comes in at a side is mirrored too.
    """
    n, _, height, width = images.shape
    moved = torch.randint(0, 2 * SHIFT + 1, (2, n, 1))
    y, x = moved[0] + torch.arange(height), moved[1] + torch.arange(width)
    x = torch.where(torch.rand(n, 1) < 0.5, x.flip(1), x)
    around = functional.pad(images, (SHIFT,) * 4, mode="reflect")
    return around[torch.arange(n)[:, None, None], :, y[:, :, None], x[:, None, :]].permute(0, 3, 1, 2)


def n_parameters(network: nn.Module) -> int:
    """Numbers that training changes."""
    return sum(each.numel() for each in network.parameters())


def train(
    network: nn.Module,
    x: Tensor,
    y: IntArray,
    *,
    epochs: int,
    batch: int = 64,
    rate: float = 1e-3,
    change: Callable[[Tensor], Tensor] = lambda given: given,
    lengths: Tensor | None = None,
    n_held_out: int = 0,
) -> nn.Module:
    """The network after so many passes over x, shuffled; Adam, the rate falling to zero by a cosine.

    `change` is what each batch goes through first, such as `trimmed`; `lengths` are those of texts, see `batches`.
    Of rows held out, where there are any, the accuracy is taken after every pass, and the best network kept.
    """
    x_held, y_held, x, y = x[:n_held_out], torch.as_tensor(y[:n_held_out]), x[n_held_out:], y[n_held_out:]
    best = Best()
    optimizer = torch.optim.Adam(network.parameters(), rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * -(-len(x) // batch))
    labels = torch.as_tensor(y)
    for epoch in range(epochs):
        network.train()
        started, total = time.perf_counter(), 0.0
        for chosen in batches(len(x), batch, lengths):
            loss = functional.cross_entropy(network(change(x[chosen])), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(chosen)
        seconds = time.perf_counter() - started
        said = f"epoch {epoch + 1} of {epochs}: loss {total / len(x):.4f}, {seconds:.1f} s"
        print(said + (best.said(network.eval(), x_held, y_held) if n_held_out else ""), flush=True)
    return best.of(network).eval()


@dataclass
class Best:
    """The network that was most accurate on rows held out."""

    accuracy: float = -1.0
    state: dict[str, Tensor] | None = None

    def said(self, network: nn.Module, x: Tensor, y: Tensor) -> str:
        """The accuracy of this network, which is kept where it is the best so far."""
        with torch.inference_mode():
            found = torch.cat([network(part).argmax(dim=1) for part in x.split(128)])
        accuracy = float((found == y).float().mean())
        if accuracy > self.accuracy:
            self.accuracy, self.state = accuracy, copy.deepcopy(network.state_dict())
        return f", accuracy {accuracy:.4f} of {len(x):,} held out"

    def of(self, network: nn.Module) -> nn.Module:
        """The network as it was then; as it is where nothing was held out."""
        if self.state is not None:
            network.load_state_dict(self.state)
        return network


def batches(n: int, size: int, lengths: Tensor | None) -> Sequence[Tensor]:
    """Positions of each batch, shuffled; where there are lengths, those of a batch are near each other."""
    order = torch.randperm(n)
    if lengths is None:
        return order.split(size)
    pools = [pool[lengths[pool].argsort()] for pool in order.split(POOL * size)]
    parts = torch.cat(pools).split(size)
    return [parts[i] for i in torch.randperm(len(parts))]


class Classifier:
    """A trained network as dshap, LIME and the masking curves call it: rows (n, columns) of numbers in, numbers out.

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
        self, network: nn.Module, classes: tuple[str, ...], image: tuple[int, int, int] | None, batch: int = 32
    ) -> None:
        self.network = network.eval().to(memory_format=torch.channels_last)  # twice as fast as channels first
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

    def logits(self, rows: FloatArray) -> FloatArray:
        """(n, k); rows and seconds are counted."""
        started = time.perf_counter()
        with torch.inference_mode():
            parts = [self.network(self.tensor(rows[at : at + self.batch])) for at in range(0, len(rows), self.batch)]
            found = torch.cat(parts).numpy().astype(np.float64)
        self.n_evaluations += len(rows)
        self.seconds += time.perf_counter() - started
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
        """(n, columns): the gradient of the log-probability of one class of each image, by its pixels."""
        parts = []
        for at in range(0, len(rows), self.batch):
            given = torch.as_tensor(np.asarray(rows[at : at + self.batch], dtype=np.float32)).requires_grad_()
            found = functional.log_softmax(self.network(self.pixels(given)), dim=1)
            chosen = torch.as_tensor(classes[at : at + self.batch])
            (slope,) = torch.autograd.grad(found.gather(1, chosen[:, None]).sum(), given)
            parts.append(slope.numpy().astype(np.float64))
        return np.concatenate(parts)

    def accuracy(self, rows: FloatArray, labels: IntArray) -> float:
        """The part of the rows that are given their own class."""
        return float((self.predicted(rows) == labels).mean())
