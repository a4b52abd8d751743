"""A Sphinx extension: docstrings as they are written here, in single backticks, with links to
public names."""

from __future__ import annotations

import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cached_property
from inspect import Parameter, Signature
from typing import Any, Protocol

from docutils import nodes
from sphinx.addnodes import desc_annotation, desc_content, desc_name, pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.inspect import stringify_signature

import dshap
from dshap.core.options import RunOptions
from website.reference import as_rst, public_places

BACK = re.compile(r'(href="[^"#]*/(dshap\.[\w.]+?)(?:-function)?\.html#)([\w.]+)"')
"""A link of a page of sources to an entry of the reference."""
ITEM = re.compile(r"^((\S.*?) : (.*))\n( +)(\S+)", re.MULTILINE)
"""An item of a list of parameters and the first word of its next line."""
WIDTH = 92
"""The width of a line of a method's docstring, which is indented by eight, with its wrap."""
SHORT = {"loops": "dshap.loops", "np": "numpy", "xr": "xarray", "pd": "pandas", "pa": "pyarrow"}
"""Short name of a package in annotations -> the package."""
PACKAGES = (
    "altair",
    "builtins",
    "collections.abc",
    "matplotlib.axes",
    "numpy.typing",
    "pathlib",
    "sklearn.base",
    "typing",
)
"""Packages whose names annotations use without the package."""
NAME = re.compile(r"""([A-Za-z_][\w.]*)(?=(?:[^"']*["'][^"']*["'])*[^"']*$)""")
"""A name in an annotation; words in quotation marks are none."""
NOT_INSTALLED = ("gpytorch",)
"""Packages of annotations that are not there where the site is built."""


def docstring_as_rst(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Make a docstring reStructuredText, but for its examples."""
    text = ITEM.sub(joined_if_wrapped, "\n".join(lines))
    parts = re.split(r"^( *>>> .*)$", text, flags=re.MULTILINE)
    lines[:] = "".join(
        part if part.lstrip().startswith(">>>") else as_rst(part) for part in parts
    ).split("\n")


def joined_if_wrapped(item: re.Match[str]) -> str:
    """An item of a list of parameters, whose text is its description where it takes several lines:
    numpydoc would show the first of them as a type."""
    line, name, text, indent, word = item.groups()
    is_wrapped = len(line) + 1 + len(word) > WIDTH
    return f"{name}\n{indent}{text}\n{indent}{word}" if is_wrapped else item[0]


def signature_as_written(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returned: Any
) -> tuple[str, str] | None:
    """The parameters of a function or class, with their types as the source has them."""
    if not signature:
        return None
    if inspect.isclass(obj) and Protocol in obj.__bases__:
        return "", ""  # nobody makes one by calling it
    text = stringify_signature(named_signature(obj)).replace("<factory>", "...")
    parameters, _, result = text.partition(" -> ")
    return parameters, "" if inspect.isclass(obj) else result


def named_signature(obj: Any) -> Signature:
    """The signature of a function or class, with each option of ``**options`` by its name."""
    if inspect.isclass(obj) and is_dataclass(obj):
        written = inspect.signature(obj.__init__)
        _, *parameters = written.parameters.values()  # without self
        return written.replace(parameters=parameters)
    written = inspect.signature(obj)
    found = [each for given in written.parameters.values() for each in named_options(obj, given)]
    return written.replace(parameters=found)


def named_options(function: Any, given: Parameter) -> Iterator[Parameter]:
    """A parameter as it is; of ``**options: Unpack[Options]`` the options that `Options` lists."""
    unpacked = re.fullmatch(r"Unpack\[(\w+)\]", str(given.annotation))
    if unpacked is None:
        yield given
        return
    options = inspect.unwrap(function).__globals__[unpacked[1]]
    known = {
        **inspect.signature(RunOptions).parameters,
        **inspect.signature(dshap.explain).parameters,
    }
    for name, kind in options.__annotations__.items():
        default = known[name].default
        yield Parameter(
            name, Parameter.KEYWORD_ONLY, default=default, annotation=kind.__forward_arg__
        )


def add_type_of_member(app: Sphinx, domain: str, kind: str, content: desc_content) -> None:
    """Show the type of a property or an attribute behind its name, as the source has it."""
    if domain != "py" or kind not in ("property", "attribute"):
        return
    line = content.parent[0]
    owner_name, _, name = line["fullname"].rpartition(".")
    if owner_name:
        owner = pkgutil.resolve_name(f"{line['module']}:{owner_name}")
        if written := type_of_member(owner, name):
            types = linked_names(written, app.env.docname)
            behind = line.first_child_matching_class(desc_name) + 1  # and before a default value
            line.insert(behind, desc_annotation("", "", nodes.Text(": "), *types))


def type_of_member(owner: type, name: str) -> str:
    """The annotation of a property's result or of an attribute, as it is written; "" without one."""
    for each in owner.__mro__:
        if name in vars(each) and isinstance(made := vars(each)[name], property | cached_property):
            function = made.fget if isinstance(made, property) else made.func
            return str(function.__annotations__.get("return", ""))
        if name in inspect.get_annotations(each):
            return str(inspect.get_annotations(each)[name])
    return ""


def linked_names(annotation: str, page: str) -> Iterator[nodes.Node]:
    """The text of an annotation on a page; each name is a link to its own page, if it has one."""
    for part in NAME.split(annotation):
        if NAME.fullmatch(part):
            target = {"reftype": "class", "reftarget": part, "refdoc": page}
            yield pending_xref("", nodes.Text(part), refdomain="py", **target)
        else:
            yield nodes.Text(part)


def public_target(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element
) -> nodes.Node | None:
    """The page of a class that is named by the module which defines it; plain text where a name has
    no page but is there."""
    if node.get("refdomain") != "py":
        return None
    target = str(node["reftarget"])
    place = public_places().get(target.rpartition(".")[2])
    if place and target != place:
        domain = env.domains["py"]
        return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", place, node, content)
    return content if is_there(target) else None


def is_there(target: str) -> bool:
    """Whether a name can be imported, from Python, dshap or a package that annotations name."""
    head, _, rest = target.partition(".")
    if head in NOT_INSTALLED:
        return True
    places = [f"{SHORT.get(head, head)}.{rest}"] if rest else []
    places += [f"{package}.{target}" for package in PACKAGES]
    members = [vars(room) for name, room in sys.modules.items() if name.startswith("dshap")]
    return (
        any(map(found, places))
        or any(target in names for names in members)
        or any(target in type_parameters(made) for names in members for made in names.values())
    )


def type_parameters(made: Any) -> set[str]:
    """The names of the type parameters of a function or class."""
    if not (inspect.isfunction(made) or inspect.isclass(made)):
        return set()
    return {parameter.__name__ for parameter in made.__type_params__}


def found(name: str) -> bool:
    """Whether a dotted name can be imported."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError):
        return False
    return True


def correct_source_page(
    app: Sphinx, name: str, template: str, context: dict[str, Any], page: nodes.document | None
) -> None:
    """Lead from the source of a name to its entry.

    sphinx.ext.viewcode takes all names of a file as those of one module of the reference.
    """
    if name.startswith("_modules/") and "body" in context:
        context["body"] = BACK.sub(with_anchor, context["body"])


def with_anchor(back: re.Match[str]) -> str:
    """A link to the entry of a name on a page that is named by the place of a class or function."""
    start, place, anchor = back.groups()
    name = place.rpartition(".")[2]
    return f'{start}{place}{anchor.rpartition(f".{name}")[2]}"'


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx; docstrings come here before numpydoc reads them."""
    app.connect("html-page-context", correct_source_page)
    app.connect("autodoc-process-docstring", docstring_as_rst, priority=100)
    app.connect("autodoc-process-signature", signature_as_written)
    app.connect("missing-reference", public_target)
    app.connect("object-description-transform", add_type_of_member)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
