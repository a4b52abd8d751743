"""Pictures as files: whether matplotlib is there, texts as they are written, and PNG."""

from __future__ import annotations

import io
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dshap.core.errors import InputError

TITLE = 64
LEGEND = 32
"""The most characters of a title above the bars, and of a name in the legend."""
DOTS = 150
LARGEST = 2**16
"""The pixels per inch of a picture, and the side in pixels from which matplotlib refuses it: its
renderer, Agg, draws fewer than 2^16 pixels in each direction."""
AS_WRITTEN: dict[str, Any] = {"parse_math": False, "usetex": False}
"""Properties of a matplotlib text that is no formula, even if it contains dollar signs."""
LABELS = "#777777"
"""The colour of numbers beside bars, legible on white and on black."""
COLOURS = ("#33658a", "#f26419", "#86bbd8", "#f6ae2d", "#758e4f", "#7d5ba6")


def require_matplotlib() -> None:
    """Raise an `InputError` if matplotlib is not installed; imports nothing.

    The message names the extra to install.

    Examples
    --------
    >>> import dshap
    >>> dshap.report.require_matplotlib() is None  # matplotlib is installed
    True
    """
    if find_spec("matplotlib") is None:
        raise InputError('pictures need matplotlib: pip install "dshap[report]"')


def saved(figure: Any, path: Path) -> Path:
    """Write a matplotlib figure as PNG; an `InputError` if it is too large or not writable."""
    picture = png(figure)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture)
    except OSError as error:
        raise InputError(f"picture {path} cannot be written: {error.strerror or error}") from error
    return path.absolute()


def png(figure: Any) -> bytes:
    """Render a matplotlib figure as the bytes of a PNG.

    Raises
    ------
    InputError
        The picture is larger than matplotlib can draw.
    """
    width, height = (round(DOTS * inches) for inches in figure.get_size_inches())
    if max(width, height) >= LARGEST:
        raise InputError(
            f"the picture would have {width:,} x {height:,} pixels, and at most {LARGEST - 1:,} a "
            "side are drawn: "
            "show fewer instances in one"
        )
    held = io.BytesIO()
    with warnings.catch_warnings():
        # the font draws a box for a missing letter
        warnings.filterwarnings("ignore", "Glyph")
        figure.savefig(held, format="png", dpi=DOTS)
    return held.getvalue()
