"""The examples of docstrings run, each alone in an empty folder, and print what they show."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import sys
import warnings
from pathlib import Path
from types import FunctionType
from typing import Protocol

import pytest

import dshap
from website.reference import BEHIND, MODULES, has_docstring, place_of, public_names

pytestmark = pytest.mark.usefixtures("in_this_process")

PACKAGE = Path(dshap.__file__).parent
NEEDED = {
    "dshap.api": "sklearn",
    "dshap.models.adapters.gpytorch": "gpytorch",
    "dshap.models.adapters.scikit_learn": "sklearn",
    "dshap.report.pages": "jinja2",
    "dshap.report.picture_files": "matplotlib",
    "dshap.report.pictures": "matplotlib",
    "dshap.report.shap_values": "shap",
    "dshap.shap_compat": "shap",
    "dshap.tables.delta": "deltalake",
    "dshap.tables.iceberg": "pyiceberg",
    "dshap.values.trees": "sklearn",
}
"""Module, or package of modules -> the package that their examples need."""


@pytest.fixture(autouse=True)
def closed():
    """No figure of an example is left open."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def modules_with_examples():
    """The modules in whose docstrings there are examples, by their names."""
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        if ">>>" in file.read_text(encoding="utf-8"):
            found.append(".".join(("dshap", *file.relative_to(PACKAGE).with_suffix("").parts)))
    return found


def examples_of(module):
    """The examples of a module, one for each docstring; they see no name of the module."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = finder.find(module, globs={})
    for each in vars(module).values():
        # the finder leaves out functions that a decorator of another module has wrapped
        is_here = isinstance(each, FunctionType) and each.__module__ == module.__name__
        if is_here and each.__globals__ is not vars(module):
            found += finder.find(each, f"{module.__name__}.{each.__name__}", globs={})
    return [each for each in found if each.examples]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_run(name, tmp_path, monkeypatch):
    for module, package in NEEDED.items():
        if f"{name}.".startswith(f"{module}."):
            pytest.importorskip(package, reason=f"{package} is not installed")
    monkeypatch.chdir(tmp_path)
    tests = examples_of(importlib.import_module(name))
    assert tests
    for each in tests:
        said: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runner.run(each, out=said.append)
        assert not said, "".join(said)


NOT_RUN = {
    "dshap.engine.local_client": "it starts processes, for ten seconds; tests/engine starts them",
}
"""Page of the reference -> why no line of its example runs."""


def pages_with_docstrings():
    """Name of a page of the reference -> its class or function."""
    return {
        f"{module}.{name}": each
        for module in (*MODULES, *BEHIND)
        for name, each in public_names(module).items()
        if has_docstring(each) and place_of(module, name) == f"{module}.{name}"
    }


def needs_example(each):
    """False for errors, which the pages of other names list under Raises, and for protocols, whose
    members have no bodies: the pages of their classes have examples."""
    is_error = inspect.isclass(each) and issubclass(each, BaseException)
    return not is_error and Protocol not in getattr(each, "__bases__", ())


def test_every_page_of_the_reference_has_an_example_that_runs():
    pages = {name: each for name, each in pages_with_docstrings().items() if needs_example(each)}
    assert len(pages) > 150
    run = {
        test.name: test.examples
        for module in modules_with_examples()
        for test in examples_of(importlib.import_module(module))
    }
    lacking = []
    for name, each in pages.items():
        there = inspect.unwrap(each)
        examples = run.get(f"{there.__module__}.{there.__qualname__}", [])
        has_section = "\nExamples\n--------\n" in (inspect.getdoc(each) or "")
        if not has_section or not any(one.want and not is_left_out(one) for one in examples):
            lacking.append(name)
    assert set(lacking) == set(NOT_RUN), "pages without an example that prints"


def is_left_out(example):
    """Whether a line of an example is marked as not to be run."""
    return example.options.get(doctest.SKIP, False)


PUBLIC = [
    dshap.Explainer,
    dshap.choose_background,
    dshap.explain,
    dshap.sources.DeltaSource,
    dshap.sources.IcebergSource,
    dshap.values.Copula,
    dshap.values.Gaussian,
    dshap.values.Marginal,
    dshap.values.Trees,
    dshap.values.Trees.of_classes,
    dshap.models.KernelLogistic,
    dshap.models.KernelLogistic.of_classes,
    dshap.models.KernelRidge,
]
"""Names of which a newcomer reads the docstring first."""


@pytest.mark.parametrize("given", PUBLIC, ids=lambda given: given.__qualname__)
def test_the_first_names_of_the_library_have_an_example(given):
    shown = doctest.DocTestParser().get_examples(inspect.getdoc(given) or "")
    assert any(each.want for each in shown)
    assert all(ast.parse(each.source) for each in shown)
