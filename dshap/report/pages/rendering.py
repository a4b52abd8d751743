"""HTML pages from the templates in this folder; a page is written completely or not at all."""

from __future__ import annotations

import base64
import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dshap.core.errors import InputError
from dshap.core.rules import as_path, checked
from dshap.storage.disk import whole_file

GENERATOR = b'<meta name="generator" content="dshap '
"""The mark of pages that dshap has made: only files with this mark are replaced without `force`."""
HEAD_BYTES = 2_048
"""The bytes at the beginning of a page that contain the mark."""


def require_jinja() -> None:
    """Raise an `InputError` if jinja2 is not installed; imports nothing.

    The message names the extra to install.

    Examples
    --------
    >>> import dshap
    >>> dshap.report.require_jinja() is None  # jinja2 is installed
    True
    """
    if find_spec("jinja2") is None:
        raise InputError('reports need jinja2: pip install "dshap[report]"')


def write_page(path: str | Path, force: Any, html: Callable[[], str]) -> Path:
    """Write one page, and return its path.

    Raises
    ------
    InputError
        jinja2 is not installed, another file is there, or the page cannot be written.
    """
    require_jinja()
    (force,) = checked(force=force)
    target = as_path("path", path, "page")
    with writing_page(target):
        make_place(target, force)
        with whole_file(target) as private:
            private.write_text(html(), encoding="utf-8")
    return target


@contextmanager
def writing_page(target: Path) -> Iterator[None]:
    """Turn errors of the file system into one line about the page at `target`."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"report {target} cannot be written: {error.strerror or error}; give the path of a file "
            "in a folder that you may write to"
        ) from error


def make_place(target: Path, force: bool) -> None:
    """Make the folder of a page and check that the page can be written, before it is computed.

    A page of dshap may exist already; `force` allows to replace any other file too.

    Raises
    ------
    OSError
        The folder cannot be made, may not be written to, or the file is a folder.
    InputError
        Another file is there.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    if not force and target.exists() and not _is_page(target):
        raise InputError(
            f"report {target}: a file that dshap did not make exists there: give another path, "
            "or force=True (--force)"
        )


def _is_page(file: Path) -> bool:
    """Whether a file is a page that dshap has made."""
    with file.open("rb") as opened:
        return GENERATOR in opened.read(HEAD_BYTES)


def rendered(template: str, more_style: str = "", **values: Any) -> str:
    """Fill a template; all texts are escaped.

    The values `style` and `style_hash` are the style of all pages, followed by `more_style`.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    style = asset("page.css") + more_style
    environment = Environment(
        loader=FunctionLoader(asset),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    return environment.get_template(template).render(
        style=Markup(style), style_hash=hash_of(style), **values
    )


def asset(name: str) -> str:
    """The text of a file in this folder."""
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def hash_of(text: str) -> str:
    """The hash of a script or style, with which the page's content security policy allows it."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"sha256-{digest}"
