"""Adult: a penalty on the attributions of sex, and what it costs in accuracy.

python -m workflows.rkhs_shap.adult --data FOLDER --out FOLDER [--tiny]

Kernel logistic models of whether a person earns more than 50,000 a year, along the strength of a
penalty on the interventional values of sex (ISV-REG) and on its observational ones (OSV-REG);
beside them the model that has no column sex.  Of each: accuracy on the test rows, mean squared
attributions of sex in its log-odds, and by how much the share of men whom it predicts to earn more
is above that of women.  Observational attributions are those of
`dshap.values.ConditionalRegression`, for all models alike: it wants no column of a model but those
that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

import dshap
from dshap.kernels import RBF, Categorical, Kernel, Nystrom, Product
from dshap.models import KernelLogistic, ShapleyPenalty
from dshap.records import FloatArray
from workflows.rkhs_shap.common import COLOURS, options, panels, saved, written
from workflows.rkhs_shap.data import ADULT, ADULT_CODES, Table, adult, made_up

STRENGTHS, TINY_STRENGTHS = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0), (0.0, 10.0)
REGULARISERS = {"ISV-REG": "interventional", "OSV-REG": "observational"}
DROPPED, PLAIN = "no column sex", "0"
SEX = "sex"
LANDMARKS, EMBEDDED, PENALTY = 200, 128, 1e-4
"""Landmarks of the models and of the embeddings; penalty of the norm."""
EXPLAINED = 2_000
"""Test rows whose attributions are measured."""
TINY_LANDMARKS = 30
SHOWN = 1.0
"""Strengths that are written beside the points: from this on, the others lie close together."""
MALE = 1.0
"""Code of men, sorted after women; of the tiny form some value."""


class Person(NamedTuple):
    """A fitted model of a table, and the columns that it has."""

    model: KernelLogistic
    columns: list[str]

    def log_odds(self, rows: FloatArray) -> FloatArray:
        """(n,) of rows of the whole table."""
        table = pd.DataFrame(rows, columns=list(ADULT))
        return np.asarray(self.model.decision_function(table[self.columns]))


def kernel_of(columns: Sequence[str]) -> Kernel:
    """Gaussian in numbers, validated; categories are alike or not."""
    return Product(
        {name: Categorical(0.5) if name in ADULT_CODES else RBF("validate") for name in columns}
    )


def models_of(
    table: Table, landmarks: int, strengths: Sequence[float]
) -> dict[tuple[str, str], Person]:
    """(regulariser, strength) -> model; the one without the column beside them."""
    x, y = table.part(True)
    kernel, found = kernel_of(list(x)), {}
    embedding = Nystrom(min(EMBEDDED, landmarks))
    for name, value in REGULARISERS.items():
        shapley = ShapleyPenalty(SEX, 0.0, value=value, embedding=embedding)
        path = KernelLogistic(kernel, Nystrom(landmarks), PENALTY, shapley=shapley).fit_path(
            x, y, list(strengths)
        )
        found |= {
            (name, f"{each:g}"): Person(model, list(x))
            for each, model in zip(strengths, path, strict=True)
        }
    others = [column for column in x if column != SEX]
    dropped = KernelLogistic(kernel_of(others), Nystrom(landmarks), PENALTY).fit(x[others], y)
    return found | {(DROPPED, PLAIN): Person(dropped, others)}


def sizes_of(
    people: Mapping[Any, Person], table: Table, landmarks: int, n_rows: int
) -> dict[str, FloatArray]:
    """Kind -> mean squared attribution of sex (models,), on test rows."""
    x, rows = table.part(True)[0], table.part(False)[0][:n_rows]
    kernel = next(iter(people.values())).model.expansion_.kernel
    embedding = Nystrom(min(EMBEDDED, landmarks))
    value = dshap.values.ConditionalRegression(
        all_log_odds(list(people.values())), x, kernel, embedding
    )
    return {
        "interventional": np.array(
            [interventional_size(each, x, rows) for each in people.values()]
        ),
        "observational": mean_square(dshap.explain(value, rows, design="exact", progress=False)),
    }


def interventional_size(person: Person, x: pd.DataFrame, rows: pd.DataFrame) -> float:
    """Of one model; 0 where it has no column sex."""
    if SEX not in person.columns:
        return 0.0
    value = dshap.values.KernelInterventional(person.model, x)
    return float(mean_square(dshap.explain(value, rows, design="exact", progress=False))[0])


def mean_square(cube: xr.Dataset) -> FloatArray:
    """(k,): of the attributions of sex."""
    return np.asarray(np.square(cube.attribution.sel(feature=SEX).to_numpy()).mean(axis=0))


def all_log_odds(people: Sequence[Person]) -> Callable[[FloatArray], FloatArray]:
    """rows (n, columns) -> (n, models)."""
    return lambda rows: np.column_stack([each.log_odds(rows) for each in people])


def gap(is_positive: FloatArray, sex: FloatArray) -> float:
    """Share of men whom a model predicts to earn more, less that of women."""
    return float(is_positive[sex == MALE].mean() - is_positive[sex != MALE].mean())


def scores(
    table: Table, landmarks: int, strengths: Sequence[float], n_rows: int
) -> dict[str, dict[str, Any]]:
    """Regulariser -> strength -> accuracy, sizes and gap."""
    people = models_of(table, landmarks, strengths)
    sizes = sizes_of(people, table, landmarks, n_rows)
    rows, target = table.part(False)
    found: dict[str, dict[str, Any]] = {}
    for j, ((name, strength), person) in enumerate(people.items()):
        is_positive = person.log_odds(rows.to_numpy()) > 0
        found.setdefault(name, {})[strength] = {
            "accuracy": round(float((is_positive == (target == 1)).mean()), 4),
            **{kind: float(f"{each[j]:.4g}") for kind, each in sizes.items()},
            "gap": round(gap(is_positive, rows[SEX].to_numpy()), 4),
        }
    return found


def picture(found: Mapping[str, Mapping[str, Mapping[str, float]]], path: Path) -> None:
    """Accuracy against the root of the mean squared attributions, and against the gap; a line a
    regulariser."""
    plain = next(iter(found.values()))[PLAIN]
    titles = {
        "interventional": "interventional values of sex",
        "observational": "observational values of sex",
    }
    figure, all_axes = panels(
        3, "Adult: accuracy on test rows along the penalty on sex", sharey=True
    )
    for axes, kind in zip(all_axes, [*titles, "gap"], strict=True):
        for colour, (name, of_strength) in zip(COLOURS, found.items(), strict=False):
            x = [
                each[kind] if kind == "gap" else np.sqrt(each[kind])
                for each in of_strength.values()
            ]
            y = [each["accuracy"] for each in of_strength.values()]
            axes.plot(
                x,
                y,
                "*" if name == DROPPED else "o-",
                color=colour,
                label=name,
                ms=11 if name == DROPPED else 4,
            )
            for place, strength in zip(zip(x, y, strict=True), of_strength, strict=True):
                if float(strength) >= SHOWN:
                    axes.annotate(
                        strength,
                        place,
                        (3, 4),
                        textcoords="offset points",
                        fontsize=7,
                        color=colour,
                    )
        start = plain[kind] if kind == "gap" else np.sqrt(plain[kind])
        axes.plot([start], [plain["accuracy"]], "s", color="#444444", label="no penalty")
        axes.set_xlim(left=-0.03 * axes.get_xlim()[1])
        axes.set_title(
            titles.get(kind, "predicted share of men less that of women"), loc="left", fontsize=10
        )
        axes.set_xlabel(
            "difference of shares" if kind == "gap" else "root mean squared attribution, log-odds"
        )
    all_axes[0].set_ylabel("accuracy")
    all_axes[0].legend(frameon=False, fontsize=8)
    saved(figure, path)


def main(argv: Sequence[str] | None = None) -> None:
    """Fit all models, measure them, and write what came out."""
    given = options(__doc__, argv, needs_data=True)
    kinds = {name: "code" if name in ADULT_CODES else "number" for name in ADULT}
    table = made_up("adult", kinds) if given.tiny else adult(given.data)
    landmarks, strengths = (
        (TINY_LANDMARKS, TINY_STRENGTHS) if given.tiny else (LANDMARKS, STRENGTHS)
    )
    n_rows = min(EXPLAINED, int((~table.is_train).sum()))
    found = scores(table, landmarks, strengths, n_rows)
    rows, target = table.part(False)
    content = {
        "train_rows": int(table.is_train.sum()),
        "test_rows": len(rows),
        "test_share_of_ones": round(float(target.mean()), 4),
        "gap_of_the_target": round(gap(target == 1, rows[SEX].to_numpy()), 4),
        "explained_rows": n_rows,
        "models": found,
    }
    written(given, "adult", content)
    picture(found, given.out / "adult.png")


if __name__ == "__main__":
    main()
