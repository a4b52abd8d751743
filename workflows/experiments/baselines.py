"""LIME and saliency as attributors, which `dshap.explain` takes in the place of a value
function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dshap
from dshap.blocks import Attribution

__all__ = ["LIME_KERNELS", "Lime", "Saliency", "draw_as_images", "draw_as_texts"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class OfPredictedClass(dshap.Attributor):
    """Base of attributors of log p_c(x), c the predicted class of the row x.

    What the attributions do not add up to goes into the base value: neither method shares a
    prediction out.
    """

    def __init__(
        self, classifier: Any, reference: FloatArray, players: Mapping[str, Sequence[int]] | None
    ) -> None:
        self.classifier, self.reference = classifier, reference
        super().__init__(self.largest, reference[None], players=players)

    def largest(self, rows: FloatArray) -> FloatArray:
        """(n,): log-probability of the likeliest class."""
        found: FloatArray = self.classifier.log_probabilities(rows).max(axis=1)
        return found

    def record(self, rows: FloatArray, phi: FloatArray) -> Attribution:
        """Of attributions (n, d)."""
        base = self.model(rows) - phi.sum(axis=1, keepdims=True)
        return self.attribution(rows, phi[:, :, None], base, tolerance=1e-6)


class Saliency(OfPredictedClass):
    """Σ |∂ log p_c / ∂x_j| over the columns j of each player: the magnitude of the gradient of an
    image.

    Source: Simonyan, Vedaldi and Zisserman, "Deep inside convolutional networks" (2013), section 3.
    """

    def __init__(
        self,
        classifier: Any,
        reference: FloatArray,
        players: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        super().__init__(classifier, reference, players)

    def attribute(self, rows: FloatArray) -> Attribution:
        """Of rows (n, columns)."""
        # (n, columns)
        slopes = np.abs(self.classifier.slopes(rows, self.classifier.predicted(rows)))
        return self.record(rows, slopes @ self.players.members.T.astype(float))


Draw = Callable[[np.random.Generator, int, int], BoolArray]
"""(generator, samples, d) -> masks (samples, d), the first of them all present."""


def draw_as_texts(rng: np.random.Generator, n: int, d: int) -> BoolArray:
    """As lime's text explainer: 1 to d words are absent, each number of them equally likely."""
    masks = np.ones((n, d), dtype=bool)
    for mask, n_absent in zip(masks[1:], rng.integers(1, d + 1, n - 1), strict=True):
        mask[rng.choice(d, n_absent, replace=False)] = False
    return masks


def draw_as_images(rng: np.random.Generator, n: int, d: int) -> BoolArray:
    """As lime's image explainer: each player is present with a chance of one half."""
    masks = rng.integers(0, 2, (n, d)).astype(bool)
    masks[0] = True
    return masks


LIME_KERNELS: Mapping[Draw, tuple[float, float]] = {
    draw_as_texts: (100.0, 25.0),
    draw_as_images: (1.0, 0.25),
}
"""What lime's explainers multiply cosine distances with, and the width of their kernel."""


class Lime(OfPredictedClass):
    """Weights of the ridge regression that the package lime fits to log p_c of samples around each
    row.

    Rows of one length share the samples' masks.  Source: Ribeiro, Singh and Guestrin, "Why should I
    trust you?", KDD 2016.

    Parameters
    ----------
    classifier, reference, players : as elsewhere; absent columns take the values of the reference
        (columns,)
    budget : int
        Evaluations of a row for each of its players.
    draw : draw_as_texts or draw_as_images
        Samples, and with them the kernel, of lime's explainer of that name.
    is_padded : rows are texts that end in columns of the reference, which are nobody's
    seed : int
    """

    def __init__(
        self,
        classifier: Any,
        reference: FloatArray,
        players: Mapping[str, Sequence[int]] | None = None,
        *,
        budget: int = 4,
        draw: Draw = draw_as_images,
        is_padded: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(classifier, reference, players)
        self.budget, self.draw, self.is_padded, self.seed = budget, draw, is_padded, seed

    def attribute(self, rows: FloatArray) -> Attribution:
        """Of rows (n, columns)."""
        classes = self.classifier.predicted(rows)
        phi = [self.weights(row, label) for row, label in zip(rows, classes, strict=True)]
        return self.record(rows, np.array(phi))

    def weights(self, row: FloatArray, label: int) -> FloatArray:
        """(d,): the coefficients of lime's regression for one row; 0 beyond the end of a text."""
        width = 1 + int(np.flatnonzero(row != self.reference)[-1]) if self.is_padded else len(row)
        d = width if self.is_padded else self.n_players
        masks = self.draw(np.random.default_rng(self.seed), self.budget * d, d)
        all_masks = np.pad(masks, ((0, 0), (0, self.n_players - d)))
        present = self.players.columns(all_masks)[:, :width]
        values = self.classifier.log_probabilities(
            np.where(present, row[:width], self.reference[:width])
        )
        _, found, *_ = self.regression.explain_instance_with_data(
            masks.astype(float), values, self.distances(masks), label, d, feature_selection="none"
        )
        out = np.zeros(self.n_players)
        positions, weights = zip(*found, strict=True)
        out[list(positions)] = weights
        return out

    def distances(self, masks: BoolArray) -> FloatArray:
        """(samples,): lime's cosine distances of the masks from the full one."""
        factor, _ = LIME_KERNELS[self.draw]
        return np.asarray(factor * (1.0 - np.sqrt(masks.mean(axis=1))))

    @cached_property
    def regression(self) -> Any:
        """lime's own, with the kernel of its explainer."""
        from lime.lime_base import LimeBase

        return LimeBase(
            partial(lime_kernel, width=LIME_KERNELS[self.draw][1]), random_state=self.seed
        )

    def fingerprint(self) -> dict[str, Any]:
        """All that the weights follow from."""
        more = {
            "budget": self.budget,
            "draw": self.draw.__name__,
            "padded": self.is_padded,
            "seed": self.seed,
        }
        return {**super().fingerprint(), **more}


def lime_kernel(distances: FloatArray, width: float) -> FloatArray:
    """The weight of each sample, as lime's explainers have it: √exp(−distance² / width²)."""
    return np.sqrt(np.exp(-(distances**2) / width**2))
