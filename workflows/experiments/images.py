"""What the experiments on images share: methods, and the pictures of images whose top-ranked pixels
are masked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dshap
from workflows.experiments.baselines import Lime, Saliency
from workflows.experiments.comparison import Method, Result, Study
from workflows.experiments.kept import KeptMarginal
from workflows.experiments.neighbours import local_methods, regression_methods

__all__ = ["BUDGET", "grid_picture", "image_methods", "masked"]

FloatArray = NDArray[np.float64]
BUDGET = 4
"""Evaluations an instance: so many a feature."""
SIDE = 4
"""Of the largest squares that C-Shapley's regression takes: those of four sizes come to less than
4d."""
PATCHES = (3, 2)
"""Sides of the squares of pixels that L-Shapley and C-Shapley of order 1 may take as players: of
single pixels they need 13 to 21 evaluations each."""
BUFFER_ROWS = 4_096
ACTIVATED, DARK = (0.85, 0.1, 0.1), (0.15, 0.3, 0.9)
"""Colours of masked pixels: brighter than the reference, and not."""


def image_methods(study: Study, image: tuple[int, int, int]) -> dict[str, Method]:
    """Name -> method, all with the plug-in reference and at most 4d evaluations; saliency needs
    two."""
    d, designs = len(study.members), dshap.designs
    value, of_reference = (
        value_of(study, study.players),
        (study.classifier, study.reference, study.players),
    )
    return {
        **regression_methods(
            value_of(study, study.players, KeptMarginal), designs.grid(*image[:2]), SIDE
        ),
        **patch_methods(study, image),
        "KernelSHAP": Method(value, designs.kernelshap(d, BUDGET * d, n_replicates=0)),
        "SampleShapley": Method(value, designs.permutation(d, BUDGET, n_replicates=0)),
        "LIME": Method(Lime(*of_reference, budget=BUDGET)),
        "Saliency": Method(Saliency(*of_reference)),
    }


def patch_methods(study: Study, image: tuple[int, int, int]) -> dict[str, Method]:
    """L-Shapley and C-Shapley, each on the smallest squares of pixels with which it keeps to the
    budget."""
    found: dict[str, Method] = {}
    for patch in PATCHES:
        value = value_of(study, dshap.image_players(*image, patch=patch), KeptMarginal)
        for name, method in local_methods(
            value, dshap.designs.grid(*(-(-side // patch) for side in image[:2]))
        ).items():
            if method.design.n_coalitions <= BUDGET * len(study.members):
                found[name] = method
    return found


def value_of(
    study: Study,
    players: Mapping[str, Sequence[int]] | None,
    kind: type[dshap.values.Marginal] = dshap.values.Marginal,
) -> Any:
    """Log-probability of the predicted class where the reference stands in the place of absent
    players."""
    return kind(
        study.classifier.probabilities,
        study.reference[None],
        players=players,
        link="log_probability",
        buffer_rows=BUFFER_ROWS,
    )


def masked(
    study: Study, image: tuple[int, int, int], attribution: FloatArray, instance: int, share: float
) -> Any:
    """(height, width, 3): an image whose top-ranked pixels are red where brighter than the
    reference, else blue."""
    row = study.rows[instance]
    top = np.argsort(-attribution[instance], kind="stable")[: round(share * attribution.shape[1])]
    chosen = np.zeros((1, attribution.shape[1]), dtype=bool)
    chosen[0, top] = True
    is_masked = study.members.columns(chosen).reshape(image)[..., :1]
    is_bright = (row - study.reference).reshape(image).mean(axis=2, keepdims=True) > 0
    shown = np.broadcast_to(row.reshape(image), (*image[:2], 3))
    return np.where(is_masked, np.where(is_bright, ACTIVATED, DARK), shown)


def grid_picture(
    study: Study,
    image: tuple[int, int, int],
    results: Sequence[Result],
    shown: Mapping[str, int],
    path: Path,
    share: float = 0.2,
) -> None:
    """Images (label -> instance) side by side; below each its masks by every method, as in Figures
    4 and 5."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(
        figsize=(1.1 * len(shown) + 1.4, 1.15 * (len(results) + 1)), layout="constrained"
    )
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(results) + 1, len(shown), squeeze=False)
    for column, (label, instance) in zip(axes.T, shown.items(), strict=True):
        column[0].imshow(study.rows[instance].reshape(image).squeeze(), cmap="gray", vmin=0, vmax=1)
        column[0].set_title(label, fontsize=7)
        for cell, result in zip(column[1:], results, strict=True):
            cell.imshow(masked(study, image, result.attribution, instance, share))
    for each in axes.flat:
        each.set_xticks([])
        each.set_yticks([])
    for cell, name in zip(axes[:, 0], ["image", *(each.method for each in results)], strict=True):
        cell.set_ylabel(name.replace(", ", "\n"), fontsize=7, rotation=0, ha="right", va="center")
    figure.savefig(path, dpi=110)
