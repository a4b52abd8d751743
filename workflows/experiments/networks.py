"""Networks of the experiments, their training, and a trained one as functions of rows of numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from torch import Tensor, nn
from torch.nn import functional

__all__ = [
    "Classifier",
    "WordNetwork",
    "digit_network",
    "mirrored",
    "n_parameters",
    "photo_network",
    "train",
    "trimmed",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
POOL = 50
"""Batches of texts that are sorted by their lengths together."""


def digit_network(height: int, width: int) -> nn.Module:
    """The paper's network of MNIST: convolutions 5 x 5 of 8 and 16 filters, a maximum of 2 x 2 after each, dense."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * (height // 4) * (width // 4), 2),
    )  # fmt: skip


def photo_network(height: int, width: int, filters: tuple[int, ...] = (16, 32, 64)) -> nn.Module:
    """The paper's network of CIFAR-10 with a third of its filters: six convolutions 3 x 3, two dense layers.

    Every two convolutions are followed by a maximum of 2 x 2 and a dropout; `filters` are those of each two.
    """
    layers: list[nn.Module] = []
    before = 3
    for n in filters:
        layers += [nn.Conv2d(before, n, 3, padding=1), nn.ReLU(), nn.Conv2d(n, n, 3, padding=1), nn.ReLU()]
        layers += [nn.MaxPool2d(2), nn.Dropout(0.1)]
        before = n
    n_inner = before * (height // 2 ** len(filters)) * (width // 2 ** len(filters))
    layers += [nn.Flatten(), nn.Linear(n_inner, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, 2)]
    return nn.Sequential(*layers)


class WordNetwork(nn.Module):
    """The paper's network of IMDB: words embedded, 250 filters of width 3, their maxima, dense.

    Token 0 is padding.  Two of them stand before and three behind every text, so that more of them change nothing.
    """

    def __init__(self, n_words: int = 5_000, n_embedding: int = 50, n_filters: int = 250, width: int = 3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_words, n_embedding)
        nn.init.uniform_(self.embedding.weight, -0.05, 0.05)  # small, so that training forms them
        self.convolution = nn.Conv1d(n_embedding, n_filters, width)
        self.inner, self.outer = nn.Linear(n_filters, n_filters), nn.Linear(n_filters, 2)
        self.dropout = nn.Dropout(0.2)
        self.margins = (width - 1, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (n, 2) of tokens (n, length)."""
        embedded = self.embedding(functional.pad(tokens.long(), self.margins))
        found = self.convolution(self.dropout(embedded).transpose(1, 2)).amax(dim=2).relu()
        return self.outer(self.dropout(self.inner(found).relu()))


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
) -> nn.Module:
    """The network after so many passes over x, shuffled; Adam, the rate falling to zero by a cosine.

    `change` is what each batch goes through first, such as `mirrored`; `lengths` are those of texts, see `batches`.
    """
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
        print(f"epoch {epoch + 1} of {epochs}: loss {total / len(x):.4f}, {seconds:.1f} s", flush=True)
    return network.eval()


def batches(n: int, size: int, lengths: Tensor | None) -> Sequence[Tensor]:
    """Positions of each batch, shuffled; where there are lengths, those of a batch are near each other."""
    order = torch.randperm(n)
    if lengths is None:
        return order.split(size)
    pools = [pool[lengths[pool].argsort()] for pool in order.split(POOL * size)]
    parts = torch.cat(pools).split(size)
    return [parts[i] for i in torch.randperm(len(parts))]


def mirrored(images: Tensor) -> Tensor:
    """Images (n, channels, height, width), each mirrored with a chance of one half."""
    return torch.where(torch.rand(len(images), 1, 1, 1) < 0.5, images.flip(-1), images)


def trimmed(tokens: Tensor) -> Tensor:
    """Texts (n, longest) without the padding behind all of them; padding among their tokens stays."""
    held = (tokens != 0).any(dim=0).nonzero()
    return tokens[:, : int(held.max()) + 1 if len(held) else 0]


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
        self, network: nn.Module, classes: tuple[str, ...], image: tuple[int, int, int] | None, batch: int = 128
    ) -> None:
        self.network, self.classes_, self.image, self.batch = network.eval(), classes, image, batch
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
