"""Pages of the API reference: one a public module, one a public name."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import GenericAlias, ModuleType
from typing import Any

MODULES = (
    "dshap",
    "dshap.values",
    "dshap.designs",
    "dshap.models",
    "dshap.kernels",
    "dshap.sources",
    "dshap.sinks",
    "dshap.report",
    "dshap.engine",
    "dshap.errors",
    "dshap.blocks",
    "dshap.records",
)
"""The public modules, in the order of the reference."""
BEHIND = {
    "dshap.run.prepared_states": ("Prepared", "PreparedAttributor"),
    "dshap.run.quality": ("Quality",),
    "dshap.core.options": ("RunOptions",),
    "dshap.core.types": (
        "Attributor",
        "Design",
        "Explained",
        "Link",
        "Pass",
        "Predictor",
        "RowReader",
        "ValueFunction",
    ),
}
"""Module -> what public functions take or give of it; a module that is not public itself."""
TYPES = {
    "dshap.core.annotations": (
        "Adjacency",
        "ArrowStream",
        "ClientLike",
        "CubeLike",
        "CubesLike",
        "DeltaTableLike",
        "HasCoefficients",
        "HasPredict",
        "KeyLike",
        "KeyValue",
        "LengthScale",
        "MatrixLike",
        "PathLike",
        "Predict",
        "RowBlocks",
        "RowKey",
        "TableLike",
        "TargetLike",
        "TextLike",
        "TreeEnsemble",
    ),
    "dshap.core.fixed_words": (
        "ChartLibrary",
        "DesignName",
        "LinkName",
        "MissingRule",
        "Scale",
    ),
    "dshap.core.records": ("JSON",),
    "dshap.core.vocabulary": ("Ids", "Tokenizer"),
    "dshap.models.expansion_sum": ("AnyExpansion",),
    "dshap.predictors.expansion": ("Expansion", "HasExpansion", "KernelModelLike"),
    "dshap.sinks.line_forms": ("Against", "PlainShape", "Shape"),
    "dshap.sinks.records": ("Deletes", "Nul", "Rows", "Write"),
    "dshap.tables.columns": ("Names", "Times"),
    "dshap.tables.files": ("Paths",),
}
"""Module -> its names of types, which signatures show and one page lists."""
TYPES_PAGE = "types"
"""The page that lists them."""
INTERNAL = {
    "dshap.values": {"LINKS", "SubsetTable"},
    "dshap.designs": {"KINDS", "MAX_KRIGED", "MAX_KRIGED_PLAYERS", "restored_design"},
    "dshap.models": {"LogisticStep", "TunedRidge"},
    "dshap.kernels": {
        "Expressed",
        "ExpressedLandmarks",
        "KeptLandmarks",
        "bound_kernel",
        "checked_embedding",
        "checked_kernel",
        "pivoted_cholesky",
        "ridge_solve",
    },
    "dshap.sources": {
        "SPAN_ROWS",
        "CensusPass",
        "Inputs",
        "MissingValues",
        "NumberedKeys",
        "WideHashes",
        "check_targets",
        "hash_columns",
        "hash_keys",
        "kind_of",
        "missing_values",
        "number_keys",
        "open_data",
        "open_for",
        "open_rows",
        "read_data",
        "refuse_unknown_categories",
        "said_left_out",
        "take_census",
        "wide_hashes",
        "write_part",
    },
    "dshap.report": {
        "METRICS",
        "Summary",
        "accuracy_lines",
        "checked_level",
        "column_of_segment",
        "damage_summary",
        "importance_summary",
        "progress_summary",
        "ranking_picture",
        "refuse_unknown_metrics",
        "require_jinja",
        "require_matplotlib",
        "seen_line",
        "stage_table",
    },
    "dshap.engine": {
        "ToldProgress",
        "check_stages",
        "checked_client",
        "current_client",
        "format_bytes",
        "is_notebook",
        "learn_from",
        "make_plan",
        "naming",
        "stage_lines",
    },
    "dshap.blocks": {"NOT_SERVED", "ROUNDING", "Scored"},
    "dshap.records": {"CHAIN", "FAN_IN", "n_left_leaves", "n_partial_sums"},
}
"""Module -> names that rooms of dshap share among themselves.  No page of the reference has them:
users neither call them nor receive them."""
SPAN = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)


@cache
def public_names(module: str) -> dict[str, Any]:
    """Name -> object of a module of the reference, without its modules."""
    room = importlib.import_module(module)
    names = BEHIND.get(module) or sorted(set(room.__all__) - INTERNAL.get(module, set()))
    found = {name: getattr(room, name) for name in names}
    return {name: each for name, each in found.items() if not isinstance(each, ModuleType)}


@cache
def public_places() -> dict[str, str]:
    """Short name of each class, function or constant -> its first place in the reference."""
    places: dict[str, str] = {}
    for module in (*MODULES, *BEHIND):
        for name in public_names(module):
            places.setdefault(name, f"{module}.{name}")
    return {**{name: place for place, name in types_by_place().items()}, **places}


def types_by_place() -> dict[str, str]:
    """Place of each name of a type -> the name, in the order of the names."""
    found = {f"{module}.{name}": name for module, names in TYPES.items() for name in names}
    return dict(sorted(found.items(), key=lambda each: each[1].lower()))


def place_of(module: str, name: str) -> str:
    """The place of a name in the reference: the first module that has the same object by it."""
    first = public_places()[name].rpartition(".")[0]
    is_same = public_names(first)[name] is public_names(module)[name]
    return f"{first if is_same else module}.{name}"


def reference_pages(below: Mapping[str, str]) -> dict[str, str]:
    """Name of each page of the reference -> its text.

    `below` has, for the places of some names, what their pages show below the docstring.
    """
    pages = {"index": index_page(), TYPES_PAGE: types_page()}
    for module in (*MODULES, *BEHIND):
        names = {
            name: each
            for name, each in public_names(module).items()
            if place_of(module, name) == f"{module}.{name}"
        }
        files = page_files(module, list(names))
        pages[module] = module_page(module, files)
        pages |= {
            files[name]: name_page(module, name, each) + below.get(f"{module}.{name}", "")
            for name, each in names.items()
        }
    return pages


def page_files(module: str, names: list[str]) -> dict[str, str]:
    """Name -> its page; no two of them differ by capitals alone, which some disks take as one."""
    taken: set[str] = set()
    files = {}
    for name in names:
        suffix = "-function" if name.lower() in taken else ""
        taken.add(name.lower())
        files[name] = f"{module}.{name}{suffix}"
    return files


def index_page() -> str:
    """The first page of the reference: every public name, by its module."""
    lead = "All public functions and classes of dshap, by module, with their docstrings."
    types = f":doc:`Types <{TYPES_PAGE}>` explains the types in signatures, such as ``TableLike``."
    parts = [titled("API reference"), lead, types, toctree([*MODULES, *BEHIND, TYPES_PAGE])]
    for module in (*MODULES, *BEHIND):
        parts.append(titled(module, "-") + first_sentence(importlib.import_module(module)))
        parts.append(name_table(module))
    return "\n\n".join(parts)


def module_page(module: str, files: dict[str, str]) -> str:
    """The page of a module: its docstring and its names."""
    parts = [titled(module), f".. automodule:: {module}", name_table(module)]
    return "\n\n".join([*parts, toctree(list(files.values()))])


def types_page() -> str:
    """The page of the names of types, each with its text and its definition."""
    lead = "The types in the signatures of dshap: which objects you can give, and what a function returns."
    return "\n\n".join([titled("Types"), lead, *map(type_entry, types_by_place())])


def type_entry(place: str) -> str:
    """The entry of a type: a class by its docstring, a name by its text and its definition."""
    module, _, name = place.rpartition(".")
    head = f".. currentmodule:: {module}\n\n"
    if inspect.isclass(getattr(importlib.import_module(module), name)):
        return f"{head}.. autoclass:: {name}\n   :members:\n"
    lines = "\n".join(f"      {line}" for line in definition_of(module, name).split("\n"))
    text = constant_text(module, name)
    return f"{head}.. py:type:: {name}\n\n   {text}\n\n   .. code-block:: python\n\n{lines}\n"


def definition_of(module: str, name: str) -> str:
    """The statement that defines a name of a type, as it is written in its module."""
    source = Path(str(importlib.import_module(module).__file__)).read_text()
    for statement in ast.parse(source).body:
        if name in assigned(statement):
            return str(ast.get_source_segment(source, statement))
        if "*" in imported(statement):
            return definition_of(str(getattr(statement, "module", "")), name)
    return ""


def name_table(module: str) -> str:
    """A table of the names of a module with the first sentence of each."""
    lines = [".. list-table::", "   :widths: 30 70", ""]
    for name, each in public_names(module).items():
        text = first_sentence(each) if has_docstring(each) else constant_text(module, name)
        lines.append(f"   * - :py:obj:`{name} <{place_of(module, name)}>`")
        lines.append(f"     - {text.partition('. ')[0].rstrip('.')}")
    return "\n".join(lines)


def name_page(module: str, name: str, each: Any) -> str:
    """The page of a name."""
    head = f"{titled(name)}\n\n.. currentmodule:: {module}\n\n"
    if inspect.isclass(each):
        kind = "autoexception" if issubclass(each, BaseException) else "autoclass"
        return f"{head}.. {kind}:: {name}\n   :members:\n   :inherited-members: {NOT_SHOWN}\n"
    if has_docstring(each):
        return f"{head}.. autofunction:: {name}\n"
    if isinstance(each, GenericAlias):
        return f"{head}{type_entry(f'{module}.{name}')}"
    value = f"   :value: {each!r}\n" if len(repr(each)) < 100 else ""
    return f"{head}.. py:data:: {name}\n{value}\n   {constant_text(module, name)}\n"


NOT_SHOWN = "object, tuple, BaseException, Exception, int, str, Enum, IntEnum, Protocol, Generic, LearnedMethod"
"""Classes whose members are not listed where a public class inherits them."""


def has_docstring(each: Any) -> bool:
    """Whether it is a class or a function, which have one of their own."""
    return inspect.isclass(each) or inspect.isroutine(each)


def first_sentence(each: Any) -> str:
    """The first sentence of a docstring, on one line."""
    paragraph = (inspect.getdoc(each) or "").partition("\n\n")[0]
    return as_rst(" ".join(paragraph.split()))


def as_rst(text: str) -> str:
    """A text of a docstring as reStructuredText: single backticks are code, or lead to a public
    name; a bar is a bar."""
    parts = SPAN.split(text)
    return "".join(marked(part) if part[:1] == "`" else part.replace("|", r"\|") for part in parts)


def marked(span: str) -> str:
    """Code, or a link if the text in backticks is a class of dshap or begins with dshap's name."""
    text = span.strip("`")
    place = public_places().get(text.rpartition(".")[2], "")
    if place and (text[0].isupper() or text.startswith("dshap.")):
        return f":py:obj:`{text} <{place}>`"
    return f"``{text}``"


def constant_text(module: str, name: str) -> str:
    """The string below the assignment of a constant, where it is defined; several constants may
    share one."""
    file = Path(str(importlib.import_module(module).__file__))
    stub = file.with_suffix(".pyi")  # of a package whose names are imported late
    statements = ast.parse((stub if stub.exists() else file).read_text()).body
    for position, statement in enumerate(statements):
        if name in assigned(statement):
            below = next(each for each in statements[position:] if not assigned(each))
            text = ast.literal_eval(below.value) if isinstance(below, ast.Expr) else ""
            return as_rst(" ".join(text.split()))
        if name in imported(statement) or "*" in imported(statement):
            text = constant_text(str(statement.module), name)
            if text:
                return text
    return ""


def imported(statement: ast.stmt) -> set[str]:
    """Names that a statement of a module imports from another."""
    return {alias.name for alias in getattr(statement, "names", []) if hasattr(statement, "module")}


def assigned(statement: ast.stmt) -> set[str]:
    """Names that a statement of a module assigns, or that it gives to a type."""
    if isinstance(statement, ast.AnnAssign):
        return {ast.unparse(statement.target)}
    if isinstance(statement, ast.TypeAlias):
        return {ast.unparse(statement.name)}
    if isinstance(statement, ast.Assign):
        return {ast.unparse(target) for target in statement.targets}
    return set()


def toctree(pages: list[str]) -> str:
    """A hidden list of pages, for the navigation."""
    return "\n".join([".. toctree::", "   :hidden:", "", *(f"   {page}" for page in pages)])


def titled(title: str, mark: str = "=") -> str:
    """A heading of reStructuredText."""
    return f"{title}\n{mark * len(title)}\n\n"
