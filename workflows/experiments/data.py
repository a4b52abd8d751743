"""Data of the experiments, read where they lie; made up for the tiny form."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dshap

__all__ = ["Images", "cifar", "made_up_images", "mnist"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Images:
    """Images of two classes as rows of numbers from 0 to 1."""

    shape: tuple[int, int, int]
    """height, width, channels"""
    classes: tuple[str, ...]
    x_train: FloatArray
    """(n, height · width · channels)"""
    y_train: NDArray[np.int64]
    """(n,): position of the class"""
    x_test: FloatArray
    y_test: NDArray[np.int64]

    @property
    def reference(self) -> FloatArray:
        """(columns,): the mean strength of all pixels of the training images, of each channel by
        itself."""
        channels = self.x_train.reshape(-1, self.shape[2]).mean(axis=0)
        return np.tile(channels, self.shape[0] * self.shape[1])

    @property
    def players(self) -> dict[str, list[int]]:
        """A player a pixel, its channels in one."""
        return dshap.image_players(*self.shape)


def mnist(folder: Path) -> Images:
    """MNIST, 3 against 8, of mnist_3_vs_8.npz: 11,982 and 1,984 images of 28 x 28 pixels."""
    with np.load(folder / "mnist_3_vs_8.npz") as held:
        parts = {name: held[name] for name in ("x_train", "y_train", "x_test", "y_test")}
    x_train, x_test = (dshap.image_rows(parts[name]) / 255.0 for name in ("x_train", "x_test"))
    y_train, y_test = ((parts[name] == 8).astype(np.int64) for name in ("y_train", "y_test"))
    return Images((28, 28, 1), ("3", "8"), x_train, y_train, x_test, y_test)


def cifar(folder: Path) -> Images:
    """CIFAR-10, deer against horse, of cifar10_deer_vs_horse.parquet: 10,000 and 2,000 JPEG copies
    of 32 x 32."""
    table = pd.read_parquet(folder / "cifar10_deer_vs_horse.parquet")
    of_split = {name: table[table["split"] == name] for name in ("train", "test")}
    x = {name: dshap.image_rows(_decoded(part["jpeg"])) / 255.0 for name, part in of_split.items()}
    y = {name: (part["label"] == "horse").to_numpy(np.int64) for name, part in of_split.items()}
    return Images((32, 32, 3), ("deer", "horse"), x["train"], y["train"], x["test"], y["test"])


def _decoded(jpegs: Sequence[bytes]) -> list[NDArray[np.uint8]]:
    from PIL import Image

    return [np.asarray(Image.open(io.BytesIO(each))) for each in jpegs]


def made_up_images(
    shape: tuple[int, int, int], classes: tuple[str, ...], n: int, seed: int = 0
) -> Images:
    """Noise with a bright bar in the upper half, or in the lower one: n images to train on, n to
    test."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 2 * n)
    images = 0.3 * rng.random((2 * n, *shape))
    middle = shape[0] // 2
    for image, label in zip(images, y, strict=True):
        image[middle * label + 1 : middle * label + 3, 1:-1] += 0.7
    rows = dshap.image_rows(images)
    return Images(shape, classes, rows[:n], y[:n], rows[n:], y[n:])
