"""The table of what goes with what, asked cell by cell of the real functions, and as the docs have
it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import dshap
from dshap import designs
from dshap.attributors.compatibility import ASKS, KINDS, TABLE, UNASKED, not_together, printed
from dshap.core.errors import InputError
from dshap.designs.by_length import DesignByLength
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelExpansion
from dshap.tables import ArraySource
from dshap.values import (
    ConditionalRegression,
    KernelInterventional,
    LinearGaussian,
    Marginal,
    Tokens,
    Trees,
)

pytestmark = [
    pytest.mark.usefixtures("in_this_process"),
    pytest.mark.filterwarnings("ignore:.*standard errors:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:std_error is NaN:RuntimeWarning"),
]
DOCS = Path(dshap.__file__).parent.parent / "docs" / "designs.md"
D = 8
X = np.random.default_rng(0).normal(size=(40, D))
ROWS = X[:4]
TEXTS = [[1, 2, 3], [4, 5, 1]]
EXPANSION = KernelExpansion(RBF(2.0).bind(D), X[:5], np.ones((5, 1)), np.zeros(1))


def first(x):
    return np.asarray(x)[:, 0] * 1.0


class Own(dshap.Attributor):
    """Attributions of a sum."""

    def attribute(self, rows):
        return self.attribution(rows, rows[:, :, None], np.zeros(1))


def black_box():
    return Marginal(first, X[:3])


def learned():
    return ConditionalRegression(first, X, RBF(2.0), Nystrom(5), 1e-2)


def trees():
    return Trees(GradientBoostingRegressor(n_estimators=2, random_state=0).fit(X, first(X)))


CODES = {"a": ["x0", "x3"], "b": [f"x{j}" for j in range(D) if j not in (0, 3)]}
DESIGNS = {
    "exact": lambda: designs.exact(D),
    "kriging": lambda: designs.kriging(D, 128),
    "kernelshap": lambda: designs.kernelshap(D, 128),
    "permutation": lambda: designs.permutation(D, 100),
    "graph": lambda: designs.local(designs.chain(D), order=1),
    "own": lambda: DesignByLength(designs.exact, D),
}
VALUES = {
    "black box": black_box,
    "streamed": lambda: Marginal(first, ArraySource(X)),
    "learned": learned,
    "quadrature": lambda: KernelInterventional(EXPANSION, X),
    "closed form": lambda: LinearGaussian(np.ones(D), data=X),
    "trees": trees,
    "attributor": lambda: Own(lambda x: np.asarray(x).sum(axis=1), X),
    "texts": lambda: Tokens(first, 9),
}
OPTIONS = {
    "design": {"design": "exact"},
    "kriging": {"design": "kriging", "max_coalitions": 64},
    "tol": {"tol": 0.5},
    "interactions": {"interactions": True},
    "codes": {"codes": CODES},
    "undo_codes": {"codes": CODES, "undo_codes": True},
    "stochastic": {"stochastic": True},
    "missing": {"missing": "pass"},
    "keep_rows": {"keep_rows": True},
    "coalition_groups": {"coalition_groups": 2},
}
CELLS = [(ask, kind) for ask in ASKS for kind in KINDS if (ask, kind) not in UNASKED]


def ask_for(ask, kind, folder):
    """Ask a public function for a cell of the table."""
    value = VALUES.get(kind, black_box)()
    if (ask, kind) == ("missing", "streamed"):
        value = Marginal(first, ArraySource(X, missing="pass"))
    design = DESIGNS[kind]() if kind in DESIGNS else "auto"
    if kind == "quadrature" and ask not in ("design", "kriging"):
        design = "quadrature"
    if ask == "prepare":
        return dshap.prepare(value, design=design, store=folder / "p", **_rows_of(kind))
    if kind == "prepared":
        value = dshap.prepare(black_box(), store=folder / "p")
    rows = TEXTS if kind == "texts" else ROWS
    if ask == "quality":
        return dshap.explain(value, rows, design=design, quality=rows)
    return dshap.explain(value, rows, **{"design": design, **OPTIONS[ask]})


def _rows_of(kind):
    return {"rows": X} if kind == "trees" else {}


@pytest.mark.parametrize(("ask", "kind"), CELLS, ids=lambda name: name.replace(" ", "_"))
def test_every_cell_is_true(ask, kind, tmp_path):
    """What the table says "yes" to runs; else its sentence is raised, word for word."""
    if (ask, kind) == ("interactions", "trees"):
        pytest.importorskip("shap", reason="shap is not installed")
    sentence = TABLE[ask].get(kind)
    if sentence is None:
        assert ask_for(ask, kind, tmp_path) is not None
        return
    words = re.sub(r"\\\{(\w+)\\\}", ".+", re.escape(sentence))
    with pytest.raises(InputError, match=f"^{words}$"):
        ask_for(ask, kind, tmp_path)


def test_the_docs_print_the_table():
    """`python -c "from dshap.attributors.compatibility import printed; print(printed())"`"""
    section = DOCS.read_text().partition("## What goes with what\n")[2].partition("\n## ")[0]
    assert printed() in section


def test_the_table_knows_its_words():
    assert TABLE.keys() == ASKS.keys()
    assert all(cells.keys() <= KINDS.keys() for cells in TABLE.values())
    with pytest.raises(KeyError):  # what goes together has no sentence
        not_together("tol", "exact")
