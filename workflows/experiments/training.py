"""Training of the networks of the experiments."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["batches", "shifted_and_mirrored", "train"]

IntArray = NDArray[np.int64]
POOL = 50
"""Batches of texts that are sorted by their lengths together."""
SHIFT = 4
"""Pixels that an image is shifted by at most, while a network is trained."""


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
    """The network after so many passes over x, shuffled; Adam, the rate falling to zero by a
    cosine.

    `change` is what each batch goes through first, such as `trimmed`; `lengths` are those of texts,
    see `batches`.  Of rows held out, where there are any, the accuracy is taken after every pass,
    and the best network kept.
    """
    x_held, y_held, x, y = (
        x[:n_held_out],
        torch.as_tensor(y[:n_held_out]),
        x[n_held_out:],
        y[n_held_out:],
    )
    best = Best()
    optimizer = torch.optim.Adam(network.parameters(), rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * -(-len(x) // batch))
    labels = torch.as_tensor(y)
    for epoch in range(epochs):
        started, total = time.perf_counter(), 0.0
        network.train()
        for chosen in batches(len(x), batch, lengths):
            total += len(chosen) * one_step(network, change(x[chosen]), labels[chosen], optimizer)
            schedule.step()
        said = f"epoch {epoch + 1} of {epochs}: loss {total / len(x):.4f}, {time.perf_counter() - started:.1f} s"
        print(said + (best.said(network.eval(), x_held, y_held) if n_held_out else ""), flush=True)
    return best.of(network).eval()


def one_step(
    network: nn.Module, x: Tensor, labels: Tensor, optimizer: torch.optim.Optimizer
) -> float:
    """The mean loss of a batch, by whose gradient the network is changed."""
    loss = functional.cross_entropy(network(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


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
    """Positions of each batch, shuffled; where there are lengths, those of a batch are near each
    other."""
    order = torch.randperm(n)
    if lengths is None:
        return order.split(size)
    pools = [pool[lengths[pool].argsort()] for pool in order.split(POOL * size)]
    parts = torch.cat(pools).split(size)
    return [parts[i] for i in torch.randperm(len(parts))]


def shifted_and_mirrored(images: Tensor) -> Tensor:
    """Images (n, channels, height, width), each moved by up to `SHIFT` pixels, and mirrored with a
    chance of one half.

    What comes in at a side is mirrored too.
    """
    n, _, height, width = images.shape
    moved = torch.randint(0, 2 * SHIFT + 1, (2, n, 1))
    y, x = moved[0] + torch.arange(height), moved[1] + torch.arange(width)
    x = torch.where(torch.rand(n, 1) < 0.5, x.flip(1), x)
    around = functional.pad(images, (SHIFT,) * 4, mode="reflect")
    return around[torch.arange(n)[:, None, None], :, y[:, :, None], x[:, None, :]].permute(
        0, 3, 1, 2
    )
