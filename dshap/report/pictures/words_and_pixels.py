"""Pictures of single instances: words on their attributions' colours, images and heat maps.

Red marks positive attributions, blue negative ones, as in all pictures; the largest |attribution|
of an instance has the deepest colour.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dshap.core.errors import InputError
from dshap.core.images import player_map
from dshap.core.late import xr
from dshap.core.printing import label as shown_as
from dshap.core.printing import printable
from dshap.core.records import FloatArray
from dshap.core.rules import as_path
from dshap.cube.datasets import names_along
from dshap.report.picture_files import AS_WRITTEN, TITLE, png, require_matplotlib, saved

POSITIVE = np.array([255, 90, 90])
NEGATIVE = np.array([70, 120, 255])
"""The colours (RGB) of the largest positive and the largest negative attribution; 0 is white.  They
are lighter than the red and blue of other pictures, so that words on them are legible."""
LINE = 88
"""The characters of a line in a picture of sentences."""
CHARACTER = 0.1
HEIGHT = 0.24
"""The width of a character and the height of a line, in inches."""
HEAT = 24
"""The most characters of a name above an image."""
PAGE = (
    '<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>{title}</title></head>\n'
    "<body>\n{body}\n</body></html>\n"
)


@dataclass(frozen=True)
class Sentence:
    """The words of one text and their attributions, for `sentence_picture`.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.report import Sentence
    >>> found = Sentence("a review", ("good", "film"), np.array([1.0, 0.0]))
    >>> found.words[found.attribution.argmax()]
    'good'
    """

    label: str
    """The label before the words, such as "a review"."""
    words: tuple[str, ...]
    attribution: FloatArray
    """(words,): the attribution of each word."""


@dataclass(frozen=True)
class Heat:
    """An image and the attributions of its pixels, for `heat_picture`.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.report import Heat
    >>> image, attribution = np.zeros((4, 4)), np.ones((4, 4))
    >>> heat = Heat("a digit", image, attribution)
    >>> heat.label, heat.image.shape
    ('a digit', (4, 4))
    """

    label: str
    image: FloatArray
    """(height, width), or (height, width, 3): brightness from 0 to 1."""
    attribution: FloatArray
    """(height, width): the attribution of each pixel's player; NaN if it has none."""


def sentence(
    cube: xr.Dataset,
    instance: int = 0,
    *,
    words: Sequence[str] | None = None,
    output: int = 0,
    label: str = "",
) -> Sentence:
    """Read the words of one text and their attributions from a cube, for `sentence_picture`.

    Parameters
    ----------
    cube : xarray.Dataset
        The result of `dshap.explain` or `dshap.open_cube`.
    instance, output : int
        The position of the text in the cube, and the position of the output.
    words : sequence of str, optional
        The words of this text.  None: the cube's variable `token` or, in a cube without it, the
        names of the features.
    label : str
        A text before the words, such as "a review".

    Returns
    -------
    Sentence

    Raises
    ------
    InputError
        The number of words differs from the number of attributions.

    Examples
    --------
    >>> import dshap
    >>> def predict(ids):  # good words minus bad ones
    ...     return (ids == 1).sum(axis=1) - (ids == 2).sum(axis=1)
    >>> value = dshap.values.Tokens(predict, ["", "good", "bad", "film"])
    >>> cube = dshap.explain(value, [["good", "film"]], design="exact")
    >>> dshap.report.sentence(cube).words
    ('good', 'film')
    """
    row = cube.isel(instance=instance)
    phi = np.asarray(row["attribution"].isel(output=output), dtype=float)
    if words is None:
        words = [
            str(word) for word in (row["token"] if "token" in cube else cube["feature"]).values
        ]
        # texts shorter than the longest have NaN from their end on
        if not np.isnan(phi).any():
            words = words[: len(phi)]
        else:
            words = words[: int(np.isnan(phi).argmax())]
    phi = phi[: len(words)]
    if len(phi) != len(words) or np.isnan(phi).any():
        raise InputError(
            f"{len(words)} words for {np.count_nonzero(~np.isnan(phi))} attributions: give one for "
            "each"
        )
    return Sentence(label, tuple(words), phi)


def heat_map(
    cube: xr.Dataset,
    instance: int,
    image: ArrayLike,
    players: dict[str, list[int]],
    *,
    output: int = 0,
    label: str = "",
) -> Heat:
    """Join an image with the attributions of its pixels from a cube, for `heat_picture`.

    Parameters
    ----------
    cube : xarray.Dataset
        The result of `dshap.explain` or `dshap.open_cube`.
    instance, output : int
        The position of the image in the cube, and the position of the output.
    image : array (height, width) or (height, width, channels)
        Brightness from 0 to 1, or from 0 to 255.
    players : dict of str to list of int
        The players of the value function, as `dshap.image_players` returned them.
    label : str
        A text above the image, such as "a digit".

    Returns
    -------
    Heat

    Raises
    ------
    InputError
        The players are not the features of the cube, or not those of an image of this size.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> images = np.random.default_rng(0).random((3, 4, 4))
    >>> players = dshap.image_players(4, 4)
    >>> rows = dshap.image_rows(images)
    >>> value = dshap.values.Marginal(lambda x: x.mean(axis=1), rows, players=players)
    >>> cube = dshap.explain(value, rows, design=dshap.designs.permutation(16, 2))
    >>> heat = dshap.report.heat_map(cube, 0, images[0], players)
    >>> heat.attribution.shape
    (4, 4)
    """
    if list(players) != names_along(cube, "feature"):
        raise InputError(
            "players are not the features of the cube: give the image_players(...) of its value "
            "function"
        )
    pixels = np.asarray(image, dtype=float)
    position = player_map(players, *pixels.shape[:2])
    phi = np.append(
        np.asarray(cube["attribution"].isel(instance=instance, output=output), dtype=float), np.nan
    )
    if pixels.max() > 1.0:
        shown = pixels / 255.0
    else:
        shown = pixels
    return Heat(label, shown.squeeze(), phi[position])  # position −1 is the NaN at the end


def colours(attribution: FloatArray) -> FloatArray:
    """Colours (…, 3) from 0 to 1: white at 0, red above, blue below; NaN is white.

    The largest |attribution| is deepest.
    """
    phi = np.nan_to_num(attribution)
    strength = (np.abs(phi) / (np.abs(phi).max(initial=0.0) or 1.0))[..., None]
    ends = np.where(phi[..., None] > 0, POSITIVE, NEGATIVE) / 255.0
    return np.asarray(1.0 - strength * (1.0 - ends))


def sentence_picture(sentences: Sequence[Sentence], path: str | Path, title: str = "") -> Path:
    """Write texts with coloured words, one below the other, as a PNG or HTML file.

    Parameters
    ----------
    sentences : sequence of Sentence
        The texts, from `sentence`.
    path : str or Path
        The file to write, which ends in .png or .html; its folder is made if it does not exist.
    title : str
        A line above the texts.

    Returns
    -------
    Path
        The file that was written.

    Raises
    ------
    InputError
        `path` has a different suffix, matplotlib is not installed (needed for PNG), or the picture
        cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dshap.report import Sentence, sentence_picture
    >>> found = Sentence("a review", ("good", "film"), np.array([1.0, 0.0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = sentence_picture([found], f"{folder}/review.html")
    ...     text = page.read_text(encoding="utf-8")
    >>> "film" in text
    True
    """
    return _written(
        path, title, lambda: _words_figure(sentences, title), lambda: _words_html(sentences)
    )


def heat_picture(heats: Sequence[Heat], path: str | Path, title: str = "") -> Path:
    """Write images above the heat maps of their attributions, side by side, as a PNG or HTML file.

    Parameters
    ----------
    heats : sequence of Heat
        The images with their attributions, from `heat_map`.
    path : str or Path
        The file to write, which ends in .png or .html; its folder is made if it does not exist.
    title : str
        A line above the images.

    Returns
    -------
    Path
        The file that was written.

    Raises
    ------
    InputError
        `path` has a different suffix, matplotlib is not installed, or the picture cannot be
        written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dshap.report import Heat, heat_picture
    >>> heat = Heat("a digit", np.zeros((4, 4, 1)), np.ones((4, 4)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     picture = heat_picture([heat], f"{folder}/digit.png")
    ...     n_bytes = picture.stat().st_size
    >>> n_bytes > 1000
    True
    """
    return _written(path, title, lambda: _heat_figure(heats, title), lambda: _heat_html(heats))


def _written(
    path: str | Path, title: str, figure: Callable[[], Any], body: Callable[[], str]
) -> Path:
    path = as_path("picture", path, "picture")
    # `figure` and `body` are called here only: HTML of sentences needs no matplotlib
    if path.suffix == ".png":
        return saved(figure(), path)
    if path.suffix != ".html":
        raise InputError(
            f"picture {path} ends in {path.suffix!r}: give a path that ends in .png or .html"
        )
    if title:
        heading = f"<h3>{_as_html(title)}</h3>\n"
    else:
        heading = ""
    page = PAGE.format(title=_as_html(title or "attributions"), body=heading + body())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"picture {path} cannot be written: {error.strerror or error}") from error
    return path


def _as_html(text: str) -> str:
    return html.escape(printable(text))


def _words_html(sentences: Sequence[Sentence]) -> str:
    lines = []
    for each in sentences:
        shades = (255 * colours(each.attribution)).round().astype(int)
        marked = " ".join(
            f'<span style="background:rgb({red},{green},{blue})" '
            f'title="{phi:+.4g}">{_as_html(word)}</span>'
            for word, phi, (red, green, blue) in zip(
                each.words, each.attribution, shades, strict=True
            )
        )
        lines.append(f"<p><b>{_as_html(each.label)}</b> {marked}</p>")
    return "\n".join(lines)


def placed(words: Sequence[str], width: int) -> list[tuple[int, int]]:
    """Place each word at (line, column), in lines of `width` characters, one blank in between."""
    places = []
    line = 0
    column = 0
    for word in words:
        if column and column + len(word) > width:
            line = line + 1
            column = 0
        places.append((line, column))
        column += len(word) + 1
    return places


def _figure(width: float, height: float) -> Any:
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def _drawn(given: Sentence) -> Sentence:
    """Shorten the label and the words of a sentence to fit a picture."""
    return Sentence(shown_as(given.label), tuple(map(shown_as, given.words)), given.attribution)


def _words_figure(given: Sequence[Sentence], title: str) -> Any:
    sentences = [_drawn(each) for each in given]
    title = shown_as(title, LINE)
    indent = 2 + max((len(each.label) for each in sentences), default=0)
    places = [placed(each.words, LINE) for each in sentences]
    heights = [1.4 + max((line for line, _ in at), default=0) for at in places]
    top = 1.5 if title else 0.5
    width = max(_width(sentences, places), len(title)) + indent
    figure = _figure(CHARACTER * (width + 2), HEIGHT * (top + sum(heights)))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-1, width + 1), ylim=(top + sum(heights), 0))
    axes.axis("off")
    axes.text(0, 0.7, title, fontsize=10, fontweight="bold", va="center", **AS_WRITTEN)
    for each, at, height in zip(sentences, places, heights, strict=True):
        _draw_words(axes, each, at, top, indent)
        top += height
    return figure


def _width(sentences: Sequence[Sentence], places: Sequence[Sequence[tuple[int, int]]]) -> int:
    """The number of characters of the longest line."""
    words = [word for each in sentences for word in each.words]
    columns = [column for at in places for _, column in at]
    return max((column + len(word) for column, word in zip(columns, words, strict=True)), default=0)


def _draw_words(
    axes: Any, given: Sentence, places: Sequence[tuple[int, int]], top: float, indent: int
) -> None:
    from matplotlib.patches import Rectangle

    style = {"family": "monospace", "fontsize": 100 * CHARACTER, "va": "center", **AS_WRITTEN}
    axes.text(0, top + 0.5, given.label, **style, fontweight="bold")
    for word, shade, (line, column) in zip(
        given.words, colours(given.attribution), places, strict=True
    ):
        x = indent + column
        y = top + line
        axes.add_patch(
            Rectangle((x - 0.3, y + 0.06), len(word) + 0.6, 0.88, color=shade, linewidth=0)
        )
        axes.text(x + len(word) / 2, y + 0.5, word, ha="center", **style)


def _heat_figure(heats: Sequence[Heat], title: str) -> Any:
    figure = _figure(1.0 + 1.6 * len(heats), 3.9 if title else 3.6)
    axes = figure.subplots(2, len(heats), squeeze=False)
    for (above, below), each in zip(axes.T, heats, strict=True):
        above.imshow(each.image, cmap="gray", vmin=0.0, vmax=1.0)
        below.imshow(colours(each.attribution))
        above.set_title(shown_as(each.label, HEAT), fontsize=9, **AS_WRITTEN)
    for each in axes.flat:
        each.set_xticks([])
        each.set_yticks([])
    if title:
        figure.suptitle(shown_as(title, TITLE), fontsize=11, fontweight="bold", **AS_WRITTEN)
    return figure


def _heat_html(heats: Sequence[Heat]) -> str:
    picture = base64.b64encode(png(_heat_figure(heats, ""))).decode()
    labels = _as_html(", ".join(each.label for each in heats))
    return f'<img alt="{labels}" src="data:image/png;base64,{picture}">'
