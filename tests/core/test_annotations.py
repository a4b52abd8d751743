"""Signatures of the API reference name real types, and options by their names."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from inspect import Parameter
from pydoc import locate
from typing import Any, Protocol, TypedDict, Unpack

import pytest

import dshap
from dshap.core import annotations
from dshap.core.errors import InputError
from dshap.core.options import ExplainOptions, LearnOptions, RunOptions
from dshap.shap_compat import ExplainerOptions
from website.docstrings import named_options, named_signature
from website.reference import (
    BEHIND,
    MODULES,
    NOT_SHOWN,
    TYPES,
    constant_text,
    definition_of,
    has_docstring,
    public_names,
    types_by_place,
)

STAYS_ANY = {
    "dshap.core.types.Explained.data": "a value function has its data in the form that it was given",
    "dshap.core.types.Pass.finish": "each pass has a type of its sums and of its result",
    "dshap.core.types.Pass.partial": "each pass has a type of its sums and of its result",
    "dshap.engine.cluster.DaskExecutor.results": "each function has a type of its results",
    "dshap.engine.learn.learn_from": "each pass has a type of its sums and of its result",
    "dshap.models.kernel_model.KernelModel.get_params": "scikit-learn's call: options of any type",
    "dshap.models.kernel_model.KernelModel.set_params": "scikit-learn's call: options of any type",
}
"""Function, method or attribute of the reference that shows `Any` -> why no type says more."""
ANY_NAME = {
    "dshap.engine.events.Events.begin": "facts of an event, under names of their own",
    "dshap.engine.events.Events.say": "facts of an event, under names of their own",
    "dshap.engine.events.Events.tell": "facts of an event, under names of their own",
    "dshap.models.kernel_model.KernelModel.set_params": "options of each kind of model",
    "dshap.models.kernel_model.KernelModel.tuned": "what a kind of model knows of its target",
}
"""Function or method that takes keywords of any name -> which."""


def is_loose(annotation: Any) -> bool:
    """Whether an annotation is missing or has `Any` in it; `JSON` has a page of its own."""
    text = annotation if isinstance(annotation, str) else repr(annotation)
    return annotation is Parameter.empty or re.search(r"\bAny\b", text) is not None


def loose_parts(function: Callable[..., Any], *, is_class: bool = False) -> Iterator[str]:
    """The parameters of a function without a real type, and "return"; "**" for keywords of any
    name."""
    given = named_signature(function)
    for position, (name, one) in enumerate(given.parameters.items()):
        is_own = position == 0 and name in ("self", "cls")
        if not is_own and is_loose(one.annotation):
            yield name
        if one.kind is Parameter.VAR_KEYWORD:
            yield "**"
    if not is_class and is_loose(given.return_annotation):
        yield "return"


def is_shown_class(owner: type) -> bool:
    """Whether pages list the members that a class inherits from this one."""
    return owner.__module__.startswith("dshap.") and owner.__name__ not in NOT_SHOWN.split(", ")


def members(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """(place, function) of the public methods and properties of a class, inherited ones too."""
    for name in dir(kind):
        owner = next((each for each in kind.__mro__ if name in vars(each)), object)
        is_shown = name == "__call__" or not name.startswith("_")
        if is_shown and is_shown_class(owner):
            found = vars(owner)[name]
            found = getattr(
                found, "__func__", getattr(found, "fget", getattr(found, "func", found))
            )
            if inspect.isfunction(inspect.unwrap(found)):
                yield f"{owner.__module__}.{owner.__qualname__}.{name}", found


def attributes(kind: type) -> Iterator[tuple[str, str]]:
    """(place, type) of the annotated attributes of a class."""
    for owner in kind.__mro__:
        if is_shown_class(owner):
            for name, given in vars(owner).get("__annotations__", {}).items():
                if not name.startswith("_"):
                    yield f"{owner.__module__}.{owner.__qualname__}.{name}", str(given)


def loose_places(page: Any) -> Iterator[tuple[str, str]]:
    """(place, part) of all that a page of the reference shows without a real type."""
    if not inspect.isclass(page):
        yield from ((f"{page.__module__}.{page.__qualname__}", part) for part in loose_parts(page))
        return
    is_made = not issubclass(page, BaseException) and Protocol not in page.__bases__
    if is_made and (is_dataclass(page) or page.__init__ is not object.__init__):
        place = f"{page.__module__}.{page.__qualname__}"
        yield from ((place, part) for part in loose_parts(page, is_class=True))
    for place, function in members(page):
        yield from ((place, part) for part in loose_parts(function))
    yield from ((place, "type") for place, given in attributes(page) if is_loose(given))


@functools.cache
def found() -> frozenset[tuple[str, str]]:
    """(place, part) of all pages of the reference."""
    pages = [
        each
        for module in (*MODULES, *BEHIND)
        for each in public_names(module).values()
        if has_docstring(each)
    ]
    assert len(pages) > 150
    return frozenset(each for page in pages for each in loose_places(page))


def test_no_signature_of_the_reference_shows_any_where_a_type_exists():
    loose = {place for place, part in found() if part != "**"}
    assert sorted(loose - STAYS_ANY.keys()) == []


def test_functions_name_their_options():
    assert sorted({place for place, part in found() if part == "**"} - ANY_NAME.keys()) == []


@pytest.mark.parametrize("place", sorted(STAYS_ANY.keys() | ANY_NAME.keys()))
def test_what_stays_is_there(place):
    assert locate(place) is not None


class Loose:
    """A class whose page would show `Any`."""

    kept: dict[str, Any]

    def __init__(self, given: Any, named: int) -> None:
        self.kept = {"given": given, "named": named}

    def bare(self, x) -> int:
        return len(self.kept) + x

    def open(self, **options: object) -> object:
        return options

    @property
    def result(self) -> list[Any]:
        return []


Loose.__module__ = "dshap.loose"


def test_what_shows_any_is_found():
    place = "dshap.loose.Loose"
    assert sorted(loose_places(Loose)) == [
        (place, "given"),
        (f"{place}.bare", "x"),
        (f"{place}.kept", "type"),
        (f"{place}.open", "**"),
        (f"{place}.result", "return"),
    ]


def test_every_option_of_a_run_is_an_option_of_a_call():
    """`tol`, `max_coalitions` and `keep_rows` are parameters of `explain` itself."""
    options = {each.name for each in fields(RunOptions)}
    own = {"tol", "max_coalitions", "keep_rows"}
    assert ExplainOptions.__annotations__.keys() == options - own
    assert LearnOptions.__annotations__.keys() < options
    ours = ExplainerOptions.__annotations__.keys()
    explained = inspect.signature(dshap.explain).parameters.keys()
    assert ours < options | explained
    assert options - ours == {"interactions", "max_coalitions"}  # parameters of a call


@pytest.mark.parametrize(
    "call", [dshap.explain, dshap.prepare, dshap.mse_v, dshap.Explainer.__call__]
)
def test_the_reference_shows_each_option_with_its_type_and_default(call):
    shown = named_signature(call).parameters
    assert Parameter.VAR_KEYWORD not in {each.kind for each in shown.values()}
    assert (shown["missing"].annotation, shown["missing"].default) == ("MissingRule", "refuse")
    assert (shown["wait"].annotation, shown["wait"].default) == ("float", RunOptions().wait)
    text = inspect.getdoc(call)
    lacking = [name for name in shown if name != "self" and not re.search(rf"\b{name}\b", text)]
    assert lacking == []


class Several(TypedDict, total=False):
    missing: str


def test_options_of_another_kind_stay_as_they_are():
    def drawn(**options: Unpack[Several]) -> None: ...
    def plain(**options: int) -> None: ...

    for function, expected in ((drawn, ["missing"]), (plain, ["options"])):
        (given,) = inspect.signature(function).parameters.values()
        assert [each.name for each in named_options(function, given)] == expected


def test_an_unknown_option_is_refused_in_one_line():
    value = dshap.values.Marginal(lambda x: x[:, 0], [[1.0], [2.0]])
    with pytest.raises(InputError, match=r"^unknown option 'interaction'; did you mean"):
        dshap.explain(value, [[1.0]], interaction=True)
    with pytest.raises(InputError, match=r"^unknown option 'nsamples'\. Coalitions are"):
        dshap.mse_v(value, [[1.0]], nsamples=3)


@pytest.mark.parametrize("place", types_by_place())
def test_every_name_of_a_type_has_a_text(place):
    module, _, name = place.rpartition(".")
    if inspect.isclass(locate(place)):
        assert inspect.getdoc(locate(place))
    else:
        assert constant_text(module, name).endswith(".")
        assert re.match(rf"(type )?{name} = \S", definition_of(module, name))


def test_the_page_of_types_has_all_of_this_module():
    defined = {
        name
        for name, each in vars(annotations).items()
        if getattr(each, "__module__", "") == annotations.__name__
    }
    assert defined == set(TYPES[annotations.__name__])
