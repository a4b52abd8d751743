"""Images as tables: an image of fixed size is a row, and pixels or parts of it are players.

Players are pixels, square patches or the parts of a segmentation.  The columns of an image are its
pixels row by row, the channels of a pixel side by side: (height, width, channels).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dshap.core.errors import InputError, shown
from dshap.core.records import FloatArray
from dshap.core.rules import Whole

SIZE = Whole(1)


def image_players(
    height: int, width: int, channels: int = 1, *, patch: int = 1, segments: ArrayLike | None = None
) -> dict[str, list[int]]:
    """Group the pixels of images into players, for `players=` of a value function.

    A player is a pixel, a square patch, or a segment.  A pixel's channels belong to one player.

    Parameters
    ----------
    height, width, channels : int
        The size of the images.  `image_rows` turns images into rows (n, height · width · channels).
    patch : int
        The side, in pixels, of the squares that are a player each; those at the right and lower
        border may be smaller.
    segments : array (height, width) of integers, optional
        The parts of a segmentation, such as skimage's superpixels: pixels of one number are one
        player.

    Returns
    -------
    dict
        Name -> columns, in the order of the players' first pixels.  A name is "row,column" of that
        pixel, or "segment 3".

    Raises
    ------
    InputError
        Sizes that are not whole numbers of at least 1, or segments of another shape.

    Examples
    --------
    >>> import dshap
    >>> dshap.image_players(2, 2, channels=3)
    {'0,0': [0, 1, 2], '0,1': [3, 4, 5], '1,0': [6, 7, 8], '1,1': [9, 10, 11]}
    """
    height = SIZE("height", height)
    width = SIZE("width", width)
    channels = SIZE("channels", channels)
    side = SIZE("patch", patch)
    if segments is None:
        names = [f"{y - y % side},{x - x % side}" for y in range(height) for x in range(width)]
    elif side == 1:
        names = [f"segment {label}" for label in _labels(segments, (height, width)).ravel()]
    else:
        raise InputError(f"patch is {side} and segments are given: give one of them")
    players: dict[str, list[int]] = {}
    for pixel, name in enumerate(names):
        players.setdefault(name, []).extend(range(pixel * channels, (pixel + 1) * channels))
    return players


def _labels(segments: ArrayLike, shape: tuple[int, int]) -> NDArray[np.int64]:
    """The part (height, width) that each pixel belongs to; an InputError for another shape."""
    try:
        labels = np.asarray(segments)
    except ValueError:
        labels = np.zeros(0)
    if labels.shape != shape or labels.dtype.kind not in "iu":
        raise InputError(
            f"segments are {shown(segments)}: give an array of integers of shape {shape}, the part "
            "of each pixel"
        )
    return labels.astype(np.int64)


def image_rows(images: ArrayLike | Sequence[ArrayLike]) -> FloatArray:
    """Turn images of one size into rows (n, height · width · channels) to explain.

    Parameters
    ----------
    images : array (n, height, width) or (n, height, width, channels), or a sequence of images of
        one size

    Returns
    -------
    (n, height · width · channels) array of float64
        A row for each image: its pixels row by row, the channels of a pixel side by side.

    Raises
    ------
    InputError
        Images of mixed sizes, or objects that are not images.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> images = np.zeros((5, 8, 8, 3))  # five images of 8 × 8 pixels in three colours
    >>> dshap.image_rows(images).shape
    (5, 192)
    """
    if np.iterable(images):
        given = list(images)
    else:
        given = []
    shapes = sorted({_shape(image) for image in given}, key=str)
    if len(shapes) > 1:
        sizes = ", ".join(" x ".join(map(str, shape)) for shape in shapes[:4])
        raise InputError(
            f"images of {len(shapes)} sizes ({sizes}): bring them to one size first, players are "
            "pixels"
        )
    if not shapes or len(shapes[0]) not in (2, 3):
        raise InputError(
            f"images are {shown(images)}: give an array (n, height, width) or (n, height, width, "
            "channels)"
        )
    try:
        return np.array(given, dtype=np.float64).reshape(len(given), -1)
    except (TypeError, ValueError) as error:
        raise InputError(f"images contain {shown(given[0])}: give numbers") from error


def _shape(image: Any) -> tuple[int, ...]:
    """The shape of an image; () if its rows have different lengths."""
    try:
        return np.shape(image)
    except ValueError:
        return ()


def player_map(players: dict[str, list[int]], height: int, width: int) -> NDArray[np.int64]:
    """Map each pixel to the position of its player: (height, width), −1 for no player.

    Parameters
    ----------
    players : the players that `image_players` gave
    height, width : the size of the images, in pixels

    Raises
    ------
    InputError
        Players whose columns are not whole pixels of such images.
    """
    n_pixels = height * width
    columns = [column for held in players.values() for column in held]
    channels = max(1, -(-(1 + max(columns, default=0)) // n_pixels))
    out = np.full(n_pixels * channels, -1)
    for position, held in enumerate(players.values()):
        out[held] = position
    by_pixel = out.reshape(n_pixels, channels)
    if (by_pixel != by_pixel[:, :1]).any():
        raise InputError(
            f"players are not those of images of {height} x {width} pixels: give their "
            "image_players(...)"
        )
    return by_pixel[:, 0].reshape(height, width)
