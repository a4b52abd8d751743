"""The sources of the site, laid out as in the repository, so that the links of its pages hold."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import nbformat

from dshap.cli import cli
from website import gallery
from website.notebooks import ROOT, SOURCES, executed
from website.reference import reference_pages, titled

OWN = Path(__file__).parent
NOT_SEARCHED = "CHANGELOG.md"
"""A page that the search leaves out: it has every word, and answers no question."""
DOCUMENTS = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "dshap/ARCHITECTURE.md",
    "dshap/WALKS.md",
    "dshap/WORDS.md",
)
LINK = re.compile(r"(\]\()(?!https?:|#)([^)#\s]+)")
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def lay_out(target: Path) -> None:
    """Fill an empty folder with every source of the site."""
    shutil.copytree(OWN / "pages", target)
    for page in documents():
        add_document(page, target)
    pictures = add_notebooks(target)
    (target / "words.rst").write_text(words_page())
    (target / "commands.rst").write_text(commands_page())
    (target / "api").mkdir()
    for name, text in reference_pages(gallery.below_functions(pictures)).items():
        (target / "api" / f"{name}.rst").write_text(text)


def add_notebooks(target: Path) -> list[gallery.Picture]:
    """Write the notebooks with their outputs, and the gallery; return its pictures."""
    (target / "notebooks").mkdir(exist_ok=True)
    paths = sorted(SOURCES.glob("*.py"))
    pictures = []
    for path, notebook in zip(paths, executed(paths), strict=True):
        nbformat.write(notebook, target / "notebooks" / f"{path.stem}.ipynb")
        if path.stem == gallery.NOTEBOOK:
            pictures = gallery.pictures_of(notebook)
    gallery.write_pictures(pictures, target / gallery.FOLDER)
    (target / "gallery.md").write_text(gallery.gallery_page(pictures))
    return pictures


def documents() -> list[Path]:
    """The Markdown pages of the repository."""
    found = [*(ROOT / "docs").glob("*.md"), *(ROOT / "workflows").rglob("*.md")]
    return sorted(found) + [ROOT / name for name in DOCUMENTS]


def add_document(page: Path, target: Path) -> None:
    """Copy a page with the files that it links to; a link to a notebook or a folder leads to its
    page."""
    text = page.read_text()
    for _, link in LINK.findall(FENCE.sub("", text)):
        path = (page.parent / link).resolve()
        place = target / path.relative_to(ROOT)
        if path.is_dir():
            shutil.copytree(path, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.pyc"))
            (place / "files.rst").write_text(folder_page(path))
        elif path.suffix != ".md" and path.parent != SOURCES:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
    place = target / page.relative_to(ROOT)
    place.parent.mkdir(parents=True, exist_ok=True)
    head = "---\nnosearch: true\n---\n\n" if page.name == NOT_SEARCHED else ""
    place.write_text(head + LINK.sub(lambda link: link[1] + as_page(page, link[2]), text))


def as_page(page: Path, link: str) -> str:
    """The link of a page, to the page of the site where it leads to a notebook or a folder."""
    path = (page.parent / link).resolve()
    if path.is_dir():
        return f"{link.rstrip('/')}/files.rst"
    if path.parent == SOURCES:
        return f"{link.removesuffix('.py')}.ipynb"
    return link


def folder_page(folder: Path) -> str:
    """A page that shows the files of a folder, and stands in it."""
    name = folder.relative_to(ROOT).as_posix()
    parts = [titled(f"Files of {name}"), f"Each file of ``{name}``, as it is in the repository."]
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            inside = path.relative_to(folder).as_posix()
            shown = "image" if path.suffix == ".png" else "literalinclude"
            parts.append(f"{titled(inside, '-')}.. {shown}:: {inside}\n")
    return "\n\n".join(parts)


def literal(text: str) -> str:
    """A block of reStructuredText that shows a text as it is."""
    lines = "\n".join(f"   {line}".rstrip() for line in text.splitlines())
    return f"\n.. code-block:: text\n\n{lines}\n"


def words_page() -> str:
    """The word list, from the table of dshap/WORDS.md."""
    table = (ROOT / "dshap" / "WORDS.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| (`[^|]+`) \|$", table, re.MULTILINE)
    entries = []
    for words, meaning, places in sorted(rows, key=lambda row: row[0].lower()):
        terms = "\n".join(f"   {word}" for word in words.split(", "))
        where = re.sub(r"`([^`]+)`", r"``dshap.\1``", places)
        entries.append(f"{terms}\n      {meaning.replace('`', '``')}; in code: {where}")
    lead = "The terms of the source code, each with its meaning and its place in the code."
    return "\n\n".join(
        [titled("Words of the source code, by the alphabet"), lead, ".. glossary::", *entries, ""]
    )


def commands_page() -> str:
    """What each command of `dshap` prints with --help."""
    lead = "The ``--help`` text of every command of ``dshap``; :doc:`docs/job_files` has examples."
    parts = [titled("Commands"), lead, literal(help_of(cli, "dshap"))]
    for name, command in each_command(cli, "dshap"):
        parts.append(titled(name, "-") + literal(help_of(command, name)))
    return "\n\n".join(parts)


def each_command(group: click.Group, above: str) -> Iterator[tuple[str, click.Command]]:
    """(name, command) of a group, by name, each group before its own commands."""
    for name, command in sorted(group.commands.items()):
        yield f"{above} {name}", command
        if isinstance(command, click.Group):
            yield from each_command(command, f"{above} {name}")


def help_of(command: click.Command, name: str) -> str:
    """The help of a command, 100 columns wide."""
    context = click.Context(command, info_name=name, terminal_width=100, max_content_width=100)
    return command.get_help(context)
