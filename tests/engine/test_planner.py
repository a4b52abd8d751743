"""Plans as sums of what a value function costs."""

from __future__ import annotations

import itertools
from dataclasses import astuple, fields, replace

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

from dshap import designs
from dshap.attributors.choice import form_of
from dshap.attributors.enough import LEAST_ROWS, PARTS
from dshap.core.capabilities import Work
from dshap.core.options import RunOptions
from dshap.core.records import Cost, n_partial_sums
from dshap.engine import make_plan
from dshap.kernels import RBF, Fourier, Nystrom
from dshap.models import KernelExpansion
from dshap.tables import ArraySource
from dshap.values import (
    ConditionalRegression,
    Copula,
    Gaussian,
    KernelInterventional,
    KernelObservational,
    LinearGaussian,
    Marginal,
    Trees,
)

D = 6
DATA = np.random.default_rng(0).normal(size=(500, D))
ROWS, READER = ArraySource(DATA[:100]), ArraySource(DATA)
EXPANSION = KernelExpansion(RBF(2.0).bind(D), DATA[:20], np.ones((20, 2)), np.zeros(2))
SPAN, TILE, INSTANCES, MICRO = 100, 10, 50, 16
CUT = {"row_span": SPAN, "coalition_tile": TILE, "instance_tile": INSTANCES, "micro_rows": MICRO}


def first(x):
    return np.asarray(x)[:, 0]


VALUES = {
    "marginal": lambda: Marginal(first, DATA[:9]),
    "gaussian": lambda: Gaussian(first, DATA, n_samples=20),
    "copula": lambda: Copula(first, DATA, n_samples=20),
    "interventional": lambda: KernelInterventional(EXPANSION, DATA),
    "observational": lambda: KernelObservational(EXPANSION, DATA, Nystrom(20)),
    "observational, Fourier": lambda: KernelObservational(
        EXPANSION, DATA, Fourier(20), 0.1, with_interventional=True
    ),
    "regression": lambda: ConditionalRegression(first, DATA, RBF(), Nystrom(20)),
}
FORMS = {
    "linear": lambda: LinearGaussian(np.ones(D), data=DATA),
    "quadrature": lambda: KernelInterventional(EXPANSION, DATA),
    "trees": lambda: Trees(
        GradientBoostingRegressor(n_estimators=2, random_state=0).fit(DATA, first(DATA))
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_more_coalitions_or_rows_never_cost_less(name):
    value = VALUES[name]()
    sizes = [(0, 1), (1, 1), (2, 1), (2, 64), (16, 64), (62, 64), (62, 5_000), (4_096, 100_000)]
    costs = [np.array(astuple(value.cost(m, n))) for m, n in sizes]
    assert all((more >= less).all() for less, more in itertools.pairwise(costs))
    assert (costs[0] >= 0).all()
    assert value.cost(2).operations > 0
    assert value.cost(2).task_bytes > 0


@pytest.mark.parametrize("name", FORMS)
def test_more_rows_of_a_closed_form_never_cost_less(name):
    form = form_of(FORMS[name]())
    costs = [np.array(astuple(form.cost(n))) for n in (1, 64, 5_000, 100_000)]
    assert all((more >= less).all() for less, more in itertools.pairwise(costs))
    assert (costs[0] >= 0).all()
    assert form.cost().operations > 0
    assert form.cost().task_bytes > 0


class Dearer:
    """A value function with some bytes or operations more."""

    more: Cost = Cost(0, 0, 0, 0.0)

    def cost(self, m, n=1):
        cost = super().cost(m, n)
        return replace(
            cost,
            **{
                own.name: getattr(cost, own.name) + getattr(self.more, own.name)
                for own in fields(Cost)
            },
        )


class Priced(Dearer, KernelInterventional):
    pass


class PricedRegression(Dearer, ConditionalRegression):
    pass


def plan_of(more: dict, **options):
    value = Priced(EXPANSION, DATA)
    value.more = replace(Priced.more, **more)
    return make_plan(
        Work.of(value, designs.exact(D)), ROWS, READER, RunOptions.of({**CUT, **options})
    )


MORE = 1 << 32
N_SUMS = 2 + n_partial_sums(len(DATA) // SPAN)


@pytest.mark.parametrize(
    ("field", "options", "rises"),
    [
        ("task_bytes", {}, {"evaluation": 1}),
        ("state_bytes", {}, {"moments": 2, "evaluation": 1}),  # beside them the bytes of the file
        ("prepare_bytes", {}, {"moments": 1}),
        ("moment_task_bytes", {}, {"moments": 1}),
        ("moment_bytes", {}, {"moments": N_SUMS}),  # of other tiles, and of a tree
        ("row_bytes", {}, {"evaluation": 1}),
        ("pair_bytes", {}, {}),
        ("pair_bytes", {"interactions": True}, {"evaluation": 1}),
    ],
)
def test_a_stage_is_a_sum_of_costs(field, options, rises):
    plain, dearer = (
        plan_of(more, **options) for more in ({field: 1 << 40}, {field: (1 << 40) + MORE})
    )
    assert replace(plain, stages=(), cache_bytes=0) == replace(dearer, stages=(), cache_bytes=0)
    for before, after in zip(plain.stages, dearer.stages, strict=True):
        assert after.task_bytes - before.task_bytes == rises.get(before.name, 0) * MORE, before.name


def test_predictions_cost_what_the_model_says():
    """Of a span of the data, of a tile of rows: where the evaluation of a micro-block takes
    less."""
    value, work = KernelInterventional(EXPANSION, DATA), {}
    for name, n_bytes in (("cheap", 0), ("dear", MORE)):
        value = KernelInterventional(EXPANSION, DATA)
        value.model.predict_bytes = lambda n, n_bytes=n_bytes: n_bytes * n
        work[name] = make_plan(Work.of(value, designs.exact(D)), ROWS, READER, RunOptions.of(CUT))
    gaps = {
        a.name: b.task_bytes - a.task_bytes
        for a, b in zip(work["cheap"].stages, work["dear"].stages, strict=True)
    }
    block = value.cost(min(TILE * work["cheap"].join_tiles, 62), MICRO).task_bytes
    assert gaps == {
        "census": 0,
        "base": MORE * SPAN,
        "moments": 0,
        "evaluation": MORE * INSTANCES - block,
    }


def test_operations_are_those_of_all_rows_and_coalitions():
    value = Priced(EXPANSION, DATA)
    stages = {stage.name: stage for stage in plan_of({}).stages}
    assert stages["moments"].operations == value.cost(62, len(DATA)).moment_operations
    assert stages["evaluation"].operations == value.cost(62, ROWS.n_rows).operations


def plan_with_enough(n_rows: int, more: dict, enough: float | str = 0.003):
    data = np.zeros((n_rows, D))
    value = PricedRegression(first, data, RBF(), Nystrom(20), 1e-3, enough=enough)
    value.more = replace(Priced.more, **more)
    return make_plan(Work.of(value, designs.exact(D)), ROWS, ArraySource(data), RunOptions.of(CUT))


@pytest.mark.parametrize(
    ("field", "rises"),
    [
        ("moment_bytes", PARTS + 3),  # of all parts, of all rows, without one part, and arriving
        ("moment_task_bytes", 1),
        ("prepare_bytes", 1),
        ("task_bytes", 1),
    ],
)
def test_judging_rows_holds_the_sums_of_all_parts(field, rises):
    plain, dearer = (
        {stage.name: stage for stage in plan_with_enough(LEAST_ROWS, {field: size}).stages}
        for size in (1 << 40, (1 << 40) + MORE)
    )
    assert dearer["enough"].task_bytes - plain["enough"].task_bytes == rises * MORE
    assert plain["enough"].n_tasks == PARTS * 13  # 62 coalitions, 5 in a tile of 10 / 2


def test_nothing_is_judged_in_a_short_table_or_where_all_rows_are_read():
    for plan in (
        plan_with_enough(LEAST_ROWS - 1, {}),
        plan_with_enough(LEAST_ROWS, {}, enough="all"),
        plan_of({}),
    ):
        assert "enough" not in [stage.name for stage in plan.stages]


def test_the_states_that_a_worker_keeps_are_those_of_every_tile():
    plan, value = plan_of({}), Priced(EXPANSION, DATA)
    sizes = [stop - start for start, stop in plan.coalition_spans]
    assert sizes == [10] * 6 + [2]
    assert plan.cache_bytes == sum(value.cost(m).state_bytes for m in sizes)
    assert plan_of({"state_bytes": 1 << 30}).cache_bytes == 0  # too large to keep


def test_a_prepared_value_function_learns_nothing():
    value = Priced(EXPANSION, DATA)
    work = Work.of(value, designs.exact(D))
    plan = make_plan(work, ROWS, None, RunOptions.of(CUT), data_rows=READER.n_rows)
    assert plan.data_rows == READER.n_rows
    assert [stage.name for stage in plan.stages] == ["census", "evaluation"]
