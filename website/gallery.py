"""The gallery: pictures of the notebook notebooks/gallery.py, each with the cell that draws it."""

from __future__ import annotations

import base64
import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat

from website.reference import first_sentence, place_of, public_names

NOTEBOOK = "gallery"
"""The notebook of all pictures."""
FOLDER = "gallery"
"""The folder of the pictures among the sources of the site."""
MODULE = "dshap.report"
CALL = re.compile(r"\bdshap\.report\.(\w+)\(")


@dataclass(frozen=True)
class Picture:
    """A picture of the gallery."""

    function: str
    """The name of the function of `dshap.report` that draws it."""
    file: str
    """The name of its file, such as bar-2.png."""
    title: str
    """The heading above its cell, without the names of functions."""
    anchor: str
    """The anchor of that heading."""
    code: str
    """The source of its cell."""
    png: bytes


def drawing_functions() -> set[str]:
    """The names of the functions of `dshap.report` that draw: into axes, or into a file."""
    found = set()
    for name, each in public_names(MODULE).items():
        if inspect.isfunction(each):
            draws = "ax" in inspect.signature(each).parameters
            found |= {name} if draws or name.endswith("_picture") else set()
    return found


def pictures_of(notebook: nbformat.NotebookNode) -> list[Picture]:
    """The pictures of a notebook with its outputs, in their order."""
    drawing = drawing_functions()
    heading = ""
    pictures: list[Picture] = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            heading = next(iter(re.findall(r"^## (.+)$", cell.source, re.MULTILINE)), heading)
            continue
        calls = [name for name in CALL.findall(cell.source) if name in drawing]
        for data in _images(cell)[: len(calls)]:
            number = 1 + sum(each.function == calls[-1] for each in pictures)
            suffix = f"-{number}" if number > 1 else ""
            pictures.append(
                Picture(
                    calls[-1],
                    f"{calls[-1]}{suffix}.png",
                    heading.partition(":")[0],
                    anchor_of(heading),
                    cell.source,
                    base64.b64decode(data),
                )
            )
    return pictures


def _images(cell: nbformat.NotebookNode) -> list[str]:
    """The PNG pictures among the outputs of a cell, as base64."""
    found = [output.get("data", {}).get("image/png") for output in cell.outputs]
    return [data for data in found if data]


def anchor_of(heading: str) -> str:
    """The anchor of a heading, as hosts of Markdown make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def write_pictures(pictures: Sequence[Picture], target: Path) -> None:
    """Write the files of the pictures."""
    target.mkdir(parents=True)
    for each in pictures:
        (target / each.file).write_bytes(each.png)


def gallery_page(pictures: Sequence[Picture]) -> str:
    """The page of thumbnails, in Markdown; each leads to its function and to its code."""
    lead = (
        "# Gallery\n\n"
        "All pictures that dshap draws.  Click a picture, or *code*, to see the code that draws it.  Click the "
        "name of a function to see its options.  Every function draws a cube of `dshap.explain`, or the path "
        "of a store.  [Pictures of a cube](docs/pictures.md) explains how to read the pictures.\n"
    )
    cards = "\n".join(map(card_of, pictures))
    return f"{lead}\n::::{{grid}} 1 2 3 3\n:gutter: 3\n:class-container: gallery\n\n{cards}\n::::\n"


def card_of(picture: Picture) -> str:
    """The card of a picture."""
    code = f"notebooks/{NOTEBOOK}.ipynb#{picture.anchor}"
    sentence = summary_of(picture.function)
    return "\n".join(
        [
            ":::{grid-item-card}",
            f"[![{sentence}]({FOLDER}/{picture.file})]({code})",
            "",
            f"**{picture.title}**",
            "",
            f"[`{picture.function}`](api/{MODULE}.{picture.function}.rst) · [code]({code})",
            ":::",
            "",
        ]
    )


def summary_of(function: str) -> str:
    """The first sentence of the docstring of a drawing function, as plain text."""
    return first_sentence(public_names(MODULE)[function]).replace("``", "").replace("\\|", "|")


def below_functions(pictures: Sequence[Picture]) -> dict[str, str]:
    """Place of each drawing function -> what its page shows below the docstring."""
    texts: dict[str, str] = {}
    for each in pictures:
        place = place_of(MODULE, each.function)
        shown = _picture_text(each)
        texts[place] = f"{texts[place]}\n{shown}" if place in texts else f"{_HEAD}\n{shown}"
    return texts


_HEAD = f"""
.. rubric:: Pictures

The cubes are those of the :doc:`gallery </notebooks/{NOTEBOOK}>`.
"""


def _picture_text(picture: Picture) -> str:
    code = "\n".join(f"   {line}".rstrip() for line in picture.code.splitlines())
    return (
        f".. code-block:: python\n\n{code}\n\n"
        f".. image:: ../{FOLDER}/{picture.file}\n   :alt: {summary_of(picture.function)}\n"
    )
