"""The report of a store as one HTML page, which needs no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dshap.core.places import Place
from dshap.core.rules import as_path, as_place, checked
from dshap.cube import named_cubes
from dshap.report.pages.content import (
    PageContent,
    content_of,
    listed_features,
    rankings_of,
    tabs_of,
)
from dshap.report.pages.page_data import rows_json
from dshap.report.pages.page_rows import page_rows
from dshap.report.pages.page_texts import PageTexts
from dshap.report.pages.relations import refuse_unknown_segments
from dshap.report.pages.rendering import (
    asset,
    hash_of,
    make_place,
    rendered,
    require_jinja,
    writing_page,
)
from dshap.report.pages.row_files import write_row_files
from dshap.report.pages.row_tables import RowFiles, tables_of
from dshap.report.pages.what_if_markup import WhatIfMarkup, what_if_of_rows
from dshap.storage.disk import whole_file

SCRIPTS = ("page.js", "largest_rows.js", "run_history.js")
"""The parts of the page's script, in their order."""
ROWS = "rows"
"""Ending of the name of the folder with all rows: report_rows beside report.html."""


def page(
    store: str | Place,
    path: str | Path = "report.html",
    *,
    run: str = "",
    all_rows: bool = False,
    segments: Sequence[str] = (),
    what_if: bool = False,
    about: Mapping[str, str] | None = None,
    force: bool = False,
) -> Path:
    """Write the report of a store as one HTML page, which a browser opens without a network.

    The first screen describes in five sentences what was explained, for whom, what moves the
    predictions, how sure that is, and its limits.  Below it are

    - the attributions of all rows, for each feature;
    - each feature by the values of its column, with the 20 rows that it moved most;
    - the importance of features over the last 30 runs of a job;
    - about 5,000 single rows, each with an address such as ``report.html#row=1234567``.

    Parameters
    ----------
    store : str or Path
        The path of a cube, or of a store with several cubes.
    path : str or Path
        The HTML file to write; its folder is made if it does not exist.
    run : str
        The run to report, such as "20260301T030000Z", in a store with a cube for each run; "" for
        the current one.
    all_rows : bool
        Whether to write every row into a folder beside the page, such as report_rows beside
        report.html.  The search of the page then finds every row, without a server.  A row takes
        about 250 bytes for 40 features and two explanations.
    segments : sequence of str
        Columns by whose values mean |attribution| is shown, such as "plan": each has at most 200
        values.  "age:5" groups a column into 5 bins of about equally many rows.
    what_if : bool
        Whether a reader can change the values of a row on the page, which then recomputes the
        prediction and the exact attributions.  The page then contains the model and, for kernel
        models, rows of the table that the model was fitted on or compares with.  The store must
        contain the model: ``dshap.explain(..., what_if=True)``.
    about : mapping of str to str, optional
        Further facts about the run, such as ``{"owner": "credit team"}``.
    force : bool
        Whether to replace a file at `path` that dshap did not write.  A page that dshap wrote is
        always replaced.

    Returns
    -------
    Path
        The page that was written.

    Raises
    ------
    InputError
        jinja2 is not installed; the store, the run, a column of `segments` or the model for
        `what_if` does not exist; a file that dshap did not write is at `path`; or the page cannot
        be written.
    DamagedError
        Names or metadata of a cube are not as they were written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["rooms", "age"])
    >>> value = dshap.values.Marginal(lambda x: 3 * x[:, 0] - x[:, 1], rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = f"{folder}/cube"
    ...     cube = dshap.explain(value, rows, store=store, keep_rows=True, progress=False)
    ...     page = dshap.report.page(store, f"{folder}/report.html")
    ...     text = page.read_text(encoding="utf-8")
    >>> page.name, "rooms" in text
    ('report.html', True)
    """
    require_jinja()
    all_rows, force, what_if = checked(all_rows=all_rows, force=force, what_if=what_if)
    target = as_path("path", path, "page")
    cubes = named_cubes(as_place("store", store), run)
    table, others = tables_of(cubes)
    with writing_page(target):
        # before the cubes are read, which takes long: a page that cannot be written is refused at
        # once
        make_place(target, force)
    refuse_unknown_segments(table, segments)
    ranked = rankings_of(cubes)
    rows = page_rows(table, listed_features(table, ranked))
    content = content_of(
        as_place("store", store), cubes, ranked, table, others, rows, about or {}, segments
    )
    part = WhatIfMarkup()
    if what_if:
        part = what_if_of_rows(table, rows.texts)
    with writing_page(target):
        files = None
        if all_rows:
            # before the page, whose script needs the names of these files
            files = write_row_files(table, target.with_name(f"{target.stem}_{ROWS}"))
        tabs = [(tab.output, [*tab.rankings]) for tab in tabs_of(ranked) if tab.given]
        texts = PageTexts.of(next(iter(cubes.values())), table.first.features)
        data = rows_json(table, rows, texts, content.units, tabs, files)
        with whole_file(target) as private:
            private.write_text(_html(content, data, files, part), encoding="utf-8")
    return target


def _html(content: PageContent, data: str, files: RowFiles | None, what_if: WhatIfMarkup) -> str:
    """Fill the template."""
    from markupsafe import Markup

    folder = ""
    if files is not None:
        folder = files.folder
    script = "".join(map(asset, SCRIPTS))
    return rendered(
        "template.html",
        title=content.title,
        version=content.version,
        missing=content.missing,
        more_style=selector_style(len(content.parts)),
        page=content,
        files=folder,
        what_if=what_if,
        script=Markup(script),
        script_hash=hash_of(script),
        rows=Markup(data),
    )


def selector_style(n_outputs: int) -> str:
    """Style rules with which the selector shows one output, without a script."""
    if n_outputs < 2:
        return ""
    return "".join(
        f"body:has(#output{place}:checked) .of:not(.of{place}) {{ display: none; }}\n"
        for place in range(n_outputs)
    )
