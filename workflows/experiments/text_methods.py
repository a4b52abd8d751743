"""Methods for texts of any length, each with about 4d evaluations of a text of d words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dshap
from dshap.designs import ConnectedDesign, KernelShapDesign, LocalDesign
from workflows.experiments.baselines import Lime, draw_as_texts
from workflows.experiments.comparison import PRESENT, Method, Study
from workflows.experiments.kept import KeptTokens
from workflows.experiments.neighbours import local_methods, regression_methods, ring

__all__ = ["BUDGET", "exact_method", "text_methods"]

BUDGET = 4
"""Evaluations a text: so many a word."""
LONGEST_RUN = 4


def text_methods(study: Study, words: Sequence[str]) -> dict[str, Method]:
    """Name -> method, all with padding as the reference; "others present" on a ring, as the
    published code has it."""
    d, designs, value = study.rows.shape[1], dshap.designs, value_of(study, words)
    kept = value_of(study, words, KeptTokens)
    around = {
        f"L-Shapley{PRESENT}": local_on_a_ring,
        f"C-Shapley, paper{PRESENT}": connected_on_a_ring,
    }
    lime = Lime(
        study.classifier, study.reference, budget=BUDGET, draw=draw_as_texts, is_padded=True
    )
    return {
        **regression_methods(kept, designs.chain(d), LONGEST_RUN),
        **local_methods(kept, designs.chain(d), around),
        "KernelSHAP": Method(value, kernelshap_of_budget),
        "SampleShapley": Method(value, designs.permutation(d, BUDGET, n_replicates=0)),
        "LIME": Method(lime),
    }


def exact_method(study: Study, words: Sequence[str]) -> Method:
    """Shapley values, from all coalitions of the words."""
    return Method(value_of(study, words), dshap.designs.exact(study.rows.shape[1]))


def value_of(
    study: Study, words: Sequence[str], kind: type[dshap.values.Tokens] = dshap.values.Tokens
) -> Any:
    """Log-probability of the predicted class where padding stands in the place of absent words."""
    return kind(study.classifier.probabilities, words, link="log_probability")


def local_on_a_ring(d: int) -> LocalDesign:
    """L-Shapley of the published code: first and last word are neighbours, all beyond a
    neighbourhood are present."""
    return dshap.designs.local(ring(d), 1, outside="present")


def connected_on_a_ring(d: int) -> ConnectedDesign:
    """C-Shapley of the published code."""
    return dshap.designs.connected(ring(d), 1, outside="present")


def kernelshap_of_budget(d: int) -> KernelShapDesign:
    """KernelSHAP with `BUDGET` coalitions a word."""
    return dshap.designs.kernelshap(d, max(BUDGET * d, 2), n_replicates=0)
