"""Kinds of a job file's tables: records by signatures, and value functions and designs of code of
the user's."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import numpy as np
import pytest

import dshap
from dshap import designs
from dshap.core.errors import InputError
from dshap.engine import SilentProgress
from dshap.jobfile.arguments import MODEL_PARTS, VALUE_PARTS
from dshap.jobfile.model_tables import given_model
from dshap.jobfile.schema import CLUSTERS, DESIGNS, MODELS, VALUES
from dshap.jobinput.job_rows import JobRows
from dshap.jobs import parse_job, plan_job, run_job
from tests.jobs.job_files import changed, small_table

CODE = '''
from dataclasses import dataclass
import numpy as np
import dshap
from dshap.core.blocks import CoalitionBlock, DesignInfo, Groups

def linear(x):
    return x @ np.arange(1.0, x.shape[1] + 1)

class Shifted(dshap.ValueFunction):
    """v_S(x): f of x with absent columns at `level`."""
    def __init__(self, predict, data, level=0.5, times: int = 1, *, feature_names=None, seed=0):
        super().__init__(predict, data, feature_names=feature_names)
        self.level, self.times, self.seed = level, times, seed
    def evaluate(self, state, rows):
        mixed = np.where(state["columns"], rows[:, None, :], self.level)
        return self.times * self.model(mixed.reshape(-1, rows.shape[1])).reshape(*mixed.shape[:2], -1)
    def fingerprint(self):
        return {**super().fingerprint(), "level": self.level, "times": self.times}

class Held(dshap.ValueFunction):
    """v_S(x): f of the first held row with the columns of S from x."""
    def __init__(self, predict, background, *, feature_names=None):
        super().__init__(predict, background, feature_names=feature_names)
        self.row, self.n_rows = np.array(self.data[0]), len(self.data)
    def evaluate(self, state, rows):
        mixed = np.where(state["columns"], rows[:, None, :], self.row)
        return self.model(mixed.reshape(-1, rows.shape[1])).reshape(*mixed.shape[:2], -1)

class Shapeless(dshap.ValueFunction):
    def __init__(self, predict, data, shape):
        raise AssertionError

@dataclass(frozen=True)
class Ends(dshap.Design):
    n_players: int
    part: float = 0.5
    @property
    def info(self):
        return DesignInfo(self.n_players, 2 + 2 * self.n_players, n_replicates=0, group_columns=self.n_players)
    def block(self, start, stop):
        d = self.n_players
        ends, single = np.array([[False] * d, [True] * d]), np.eye(d, dtype=bool)
        masks = np.concatenate([ends, single, ~single])
        score = np.concatenate([ends - 0.5, single * self.part, single * (self.part - 1.0)])
        return CoalitionBlock(masks[start:stop], score[start:stop], Groups.none(d))
    def finish(self, sums, v_empty, v_full):
        return sums + ((v_full - v_empty) - sums.sum(axis=1))[:, None] / self.n_players
'''
IMPORTED = ("model", {"kind": "import", "function": "own_kinds:linear"})
SHIFTED = {"name": "a", "value": "own_kinds:Shifted"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    small_table(100).to_parquet(tmp_path / "table.parquet")
    (tmp_path / "own_kinds.py").write_text(CODE)
    yield tmp_path
    sys.modules.pop("own_kinds", None)


def test_a_value_function_and_a_design_of_code_of_the_users():
    """By their place; parts come from the job, options by their types or defaults."""
    design = ("design", {"kind": "own_kinds:Ends", "part": 0.25})
    job = parse_job(changed(IMPORTED, ("explain", [{**SHIFTED, "level": 2.0, "times": 1}]), design))
    assert job.explain[0].level == 2.0
    assert job.explain[0].quality_rows is None
    cube = dshap.open_cube(run_job(job, SilentProgress()).paths["a"]).load()
    x = small_table(100)[["hr", "temp", "hum"]].to_numpy()
    mean = (x @ [1.0, 2.0, 3.0]).mean()
    whole = np.stack(
        [x[:, 0] - 2.0, 2.0 * (x[:, 1] - 2.0), 3.0 * (x[:, 2] - 2.0)], axis=1
    )  # v({i}) − v(∅) of f(2, 2, 2)
    base = 12.0
    single = base + whole  # v of one player
    others = base + whole.sum(axis=1, keepdims=True) - whole  # v of all but one
    sums = 0.25 * single - 0.75 * others
    full = x @ [1.0, 2.0, 3.0]
    sums += 0.5 * full[:, None] - 0.5 * mean
    phi = sums + ((full - mean) - sums.sum(axis=1))[:, None] / 3
    np.testing.assert_allclose(cube.attribution[:, :, 0], phi, atol=1e-9)
    assert run_job(job, SilentProgress()).was_complete
    with pytest.raises(dshap.DshapError, match=r"level|value"):  # another option, another run
        run_job(
            parse_job(changed(IMPORTED, ("explain", [{**SHIFTED, "level": 3.0}]), design)),
            SilentProgress(),
        )


def test_a_background_of_a_number_of_rows_is_an_array():
    held = {"name": "a", "value": "own_kinds:Held", "background": 20, "quality_rows": 10}
    job = parse_job(changed(IMPORTED, ("explain", [held])))
    value = job.explain[0].made(JobRows(job).context(given_model(job.model)))
    assert value.n_rows == 20
    assert value.model.feature_names == ("hr", "temp", "hum")
    result = run_job(job, SilentProgress())
    cube = dshap.open_cube(result.paths["a"]).load()
    assert (cube.status == 1).all()
    assert result.explanations[0].quality["rows"] == 10
    weights, x = np.array([1.0, 2.0, 3.0]), small_table(100)[["hr", "temp", "hum"]].to_numpy()
    # of the linear function, less what the base value adds: the mean of all 20 rows
    phi = weights * (x - value.row)
    np.testing.assert_allclose(
        np.ptp(cube.attribution.values[:, :, 0] - phi, axis=0), 0.0, atol=1e-9
    )


@pytest.mark.parametrize(
    ("explain", "design", "said"),
    [
        ({**SHIFTED, "levl": 1.0}, {}, r"unknown key 'levl'; did you mean 'level'"),
        ({**SHIFTED, "times": 1.5}, {}, r"\[\[explain\]\] a times = 1.5: give a whole number"),
        ({**SHIFTED, "level": "high"}, {}, r"\[\[explain\]\] a level = \"high\": give a number"),
        (
            {**SHIFTED, "players": {"p": ["hr", "hum"]}},
            {},
            r"players belongs to value functions with coalitions; with value = \"own_kinds",
        ),
        (
            {"name": "a", "value": "own_kinds:Nothing"},
            {},
            r"value = \"own_kinds:Nothing\": own_kinds has no 'Nothing'",
        ),
        (
            {"name": "a", "value": "no_such:It"},
            {},
            r"value = \"no_such:It\": there is no module no_such: looked",
        ),
        (
            {"name": "a", "value": "own_kinds:Shapeless"},
            {},
            r"Shapeless takes shape, and a job file cannot express its type",
        ),
        (
            SHIFTED,
            {"kind": "own_kinds:Ends", "n_coalitions": 8},
            r"n_coalitions belongs to kind = \"kernelshap\"",
        ),
        (SHIFTED, {"kind": "own_kinds:Ends", "tol": 0.1}, r"tol belongs to a design that grows"),
    ],
)
def test_what_is_refused_of_them(explain, design, said):
    with pytest.raises(InputError, match=said):
        parse_job(changed(IMPORTED, ("explain", [explain]), ("design", design)))


@pytest.mark.parametrize("kinds", [VALUES, DESIGNS, MODELS, CLUSTERS])
def test_every_kind_has_all_that_its_signature_needs(kinds):
    """What has no default is a part or a key; what is a key is a parameter."""
    for kind, record in kinds.records.items():
        if kinds.known[kind] is record:  # written out
            continue
        parameters = inspect.signature(record.making).parameters
        needed = {name for name, each in parameters.items() if each.default is each.empty}
        assert needed <= record.parts.keys() | set(record.options), kind
        assert record.parts.keys() | set(record.options) <= parameters.keys(), kind
        assert set(record.options) <= record.model_fields.keys(), kind


def test_the_parts_are_asked_for():
    assert all(
        any(name in record.parts for record in VALUES.records.values()) for name in VALUE_PARTS
    )
    assert all(
        any(name in record.parts for record in MODELS.records.values()) for name in MODEL_PARTS
    )


def test_every_design_is_known_again_by_its_fingerprint():
    options = {"n_coalitions": 20, "n_permutations": 4, "graph": "chain", "order": 2}
    for kind in designs.KINDS:
        record = DESIGNS.records[kind]
        keys = {name: value for name, value in options.items() if name in record.model_fields}
        design = DESIGNS({"kind": kind, **keys}).made((5, 3))
        assert design.fingerprint()["design"] == kind
        assert designs.restored_design(design.fingerprint()) == design


def test_options_of_the_library_are_options_of_the_job():
    """No list of them is written by hand: what a constructor takes, a job file takes."""
    job = parse_job(
        changed(IMPORTED, ("explain", [{"name": "a", "value": "gaussian", "buffer_rows": 99}]))
    )
    assert "buffer_rows" in str(VALUES.records["gaussian"].model_fields)
    assert job.explain[0].buffer_rows == 99
    assert plan_job(job)
    design = parse_job(
        changed(("design", {"kind": "kriging", "n_coalitions": 90, "shells": 1, "variation": 0.1}))
    ).design
    assert (design.shells, design.variation, design.decay) == (1, 0.1, "pilot")
