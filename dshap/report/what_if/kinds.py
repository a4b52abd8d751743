"""Kinds of models that a page's script computes, by the type of their value function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dshap.attributors.method import Method
from dshap.report.what_if.kernel_model import arrays_of_kernel, refuse_kernel
from dshap.report.what_if.linear_model import arrays_of_linear, refuse_linear
from dshap.report.what_if.model_record import LearnedParts, NoWhatIf
from dshap.report.what_if.tree_model import (
    arrays_of_trees,
    columns_of_trees,
    facts_of_trees,
    refuse_trees,
)
from dshap.values.interventional import KernelInterventional
from dshap.values.linear_gaussian import LinearGaussian
from dshap.values.trees import Trees


def _no_facts(value: Any) -> dict[str, Any]:
    """For kinds that need no facts in addition to their arrays."""
    return {}


def _all_columns(value: Any) -> Iterable[int]:
    """For kinds whose models read every column."""
    return range(value.model.n_columns)


@dataclass(frozen=True)
class WhatIfKind:
    """One kind of model that is computed on a page."""

    name: str
    """The name in the record, with which the script finds the function of the kind."""
    refuse: Callable[[Method, int], None]
    """Raises a `NoWhatIf` for methods that are not computed, before anything is learned; the number
    is that of the rows that are learned from."""
    arrays_of: Callable[[LearnedParts], dict[str, Any]]
    """The arrays of a finished explanation; a `NoWhatIf` if they are too large."""
    facts_of: Callable[[Any], dict[str, Any]] = _no_facts
    """Plain facts about a value function, in addition to its arrays."""
    reads: Callable[[Any], Iterable[int]] = _all_columns
    """The positions of the columns that the model reads; only these have controls."""


KINDS: Mapping[type, WhatIfKind] = {
    LinearGaussian: WhatIfKind("linear", refuse_linear, arrays_of_linear),
    KernelInterventional: WhatIfKind("kernel", refuse_kernel, arrays_of_kernel),
    Trees: WhatIfKind("trees", refuse_trees, arrays_of_trees, facts_of_trees, columns_of_trees),
}
"""Type of value function -> its kind; subclasses inherit it."""


def kind_of_method(method: Method, n_data: int) -> WhatIfKind:
    """The kind of a method that learns from `n_data` rows; its arrays may still be too large.

    Raises
    ------
    NoWhatIf
        The value function is of another kind, or the method is not computed on a page.
    """
    value = method.value
    kind = next((KINDS[each] for each in type(value).__mro__ if each in KINDS), None)
    if kind is None:
        raise NoWhatIf(
            f"the value function is {type(value).__name__}, and only LinearGaussian, "
            "KernelInterventional and Trees can be computed on a page"
        )
    if not value.link.is_identity:
        raise NoWhatIf(
            "a page cannot compute the link of the value function: use a value function without a "
            "link"
        )
    kind.refuse(method, n_data)
    return kind
