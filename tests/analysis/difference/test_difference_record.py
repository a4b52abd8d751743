"""The difference of two cubes: its numbers are numpy's on the loaded arrays, whatever the order of the
rows, and what cannot be compared is told in a line."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import xarray as xr

import dshap
from dshap.analysis.difference import row_pairs
from dshap.core.blocks import Status
from dshap.core.errors import InputError
from dshap.cube import feature_ranking, set_current
from dshap.cube.datasets import magnitude_errors
from dshap.cube.importance import stored_deviations
from dshap.report import diff, largest_shift
from tests.cube.cubes import N_ROWS, make_cube, phi_of
from tests.tables.keys_of_one_hash import keys_of_one_hash

NAMES = ["age", "income", "tenure", "visits", "zip"]
N = 600


def cube_of(
    phi: np.ndarray, names=None, units="EUR", base=2.0, outputs=("y",), **keys: np.ndarray
) -> xr.Dataset:
    """A cube in memory of attributions (n, d, k), with these key columns."""
    variables = {
        "attribution": (("instance", "feature", "output"), phi, {"units": units}),
        "prediction": (("instance", "output"), phi.sum(axis=1) + base),
        "base_value": (("output",), np.full(phi.shape[2], base)),
        "status": (("instance",), np.where(np.isnan(phi[:, 0, 0]), 2, 1).astype(np.int8)),
    }
    coords = {name: (("instance",), values) for name, values in keys.items()}
    names = names or NAMES[: phi.shape[1]]
    return xr.Dataset(variables, {**coords, "feature": names, "output": list(outputs)})


def attributions(n: int = N, n_outputs: int = 1) -> np.ndarray:
    rng = np.random.default_rng(4)
    return rng.normal(size=(n, 5, n_outputs)) * np.array([5.0, 4, 3, 2, 1])[:, None]


def planted(phi: np.ndarray) -> np.ndarray:
    """Attributions of tenure have grown, in every second row, and most in row 7."""
    changed = phi.copy()
    changed[::2, 2] += 1.0
    changed[7, 2] += 9.0
    return changed


OLD = attributions()
NEW = planted(OLD)
IDS = np.arange(N) * 3 + 100


def test_a_run_does_not_differ_from_itself(tmp_path):
    make_cube(tmp_path / "cube")
    for given in (cube_of(OLD, id=IDS), tmp_path / "cube"):
        found = diff(given, given)
        for output in found.outputs:
            for each in output.features:
                assert (each.psi, each.wasserstein, each.mean_change) == (0.0, 0.0, 0.0)
                assert each.magnitude_old == each.magnitude_new
            assert output.n_changed == 0
            assert output.rows == ()
            assert output.moves == []
            assert output.ndcg.value == output.spearman.value == 1.0
        assert found.above(dict.fromkeys(dshap.report.METRICS, 0.0)) == []
        assert "the ranking is the same" in str(found)
        assert "no feature moved: PSI and Wasserstein distance are 0" in str(found)


def shuffled(**keys: np.ndarray) -> tuple[xr.Dataset, np.ndarray]:
    """The new cube in another order, without five rows of the old one, and with three of its own."""
    order = np.random.default_rng(1).permutation(N)[5:]
    phi = np.concatenate([NEW[order], NEW[:3] + 1.0])
    others = {name: values[:3] + 2 * (values[-1] - values[0]) for name, values in keys.items()}
    joined = {name: np.concatenate([keys[name][order], others[name]]) for name in keys}
    return cube_of(phi, **joined), order


@pytest.mark.parametrize("part_bytes", [1 << 30, 4_000])
@pytest.mark.parametrize("kind", ["same order", "number", "time and text"])
def test_a_planted_change_is_first_and_the_numbers_are_numpys(monkeypatch, kind, part_bytes):
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    monkeypatch.setattr(row_pairs, "PART_BYTES", part_bytes)
    keys = {"id": IDS}
    if kind == "time and text":
        times = np.datetime64("2026-01-01", "ns") + (IDS * 10**9 * 86_400).astype("m8[ns]")
        keys = {"day": times}
    if kind == "same order":
        new, order, phi = cube_of(NEW, **keys), np.arange(N), NEW
    else:
        new, order = shuffled(**keys)
        phi = new["attribution"].values
    old = cube_of(OLD, **keys)
    if kind == "time and text":
        old = old.assign_coords(shop=("instance", np.array([f"süd {i % 7}" for i in IDS])))
        shops = np.array([f"süd {i % 7}" for i in [*IDS[order], 0, 1, 2]])
        new = new.assign_coords(shop=("instance", shops))
    found = diff(old, new)
    (output,) = found.outputs
    first = output.features[0]
    assert first.feature == "tenure"
    assert first.psi > max(each.psi for each in output.features[1:])
    assert first.wasserstein == max(each.wasserstein for each in output.features)
    for each in output.features:
        j = NAMES.index(each.feature)
        exact = stats.wasserstein_distance(OLD[:, j, 0], phi[:, j, 0])
        assert abs(each.wasserstein - exact) <= each.wasserstein_error
        assert each.magnitude_old == pytest.approx(np.abs(OLD[:, j]).mean(), rel=1e-12)
        assert each.magnitude_new == pytest.approx(np.abs(phi[:, j]).mean(), rel=1e-12)
        change = np.abs(NEW[order, j] - OLD[order, j]).mean()
        assert each.mean_change == pytest.approx(change, rel=1e-9)
    assert output.base_new == 2.0
    assert output.prediction_new == pytest.approx(phi.sum(axis=1).mean() + 2.0, rel=1e-9)
    # rows: number 7 changed most, if it is in both
    size = np.abs(NEW[order] - OLD[order]).sum(axis=1)[:, 0]
    assert output.n_changed == np.count_nonzero(size)
    assert found.n_both == len(order)
    assert (found.old.n_alone, found.new.n_alone) == (N - len(order), len(phi) - len(order))
    assert [row.change for row in output.rows] == pytest.approx(np.sort(size)[::-1][:10])
    top = output.rows[0]
    place = order[size.argmax()]
    assert (top.feature, top.attribution_old) == ("tenure", OLD[place, 2, 0])
    assert top.prediction_new == pytest.approx(NEW[place].sum() + 2.0)
    if kind == "time and text":
        day = str(np.datetime_as_string(keys["day"][place], "D"))
        assert top.key == {"day": day, "shop": f"süd {IDS[place] % 7}"}
        assert f"day={day} shop=süd {IDS[place] % 7}" in str(found)
    else:
        assert top.key == {"id": str(IDS[place])}


def test_a_feature_that_hardly_counts_does_not_move_most():
    """PSI has no size: attributions of 1e-4 that become others of 1e-4 come after a change of 1."""
    old, new = OLD.copy(), OLD.copy()
    old[:, 4] = np.random.default_rng(1).choice([-1e-4, 2e-4], (N, 1))
    new[:, 4] = np.random.default_rng(2).choice([-6e-4, 9e-4], (N, 1))
    new[:, 2] += 0.2
    (output,) = diff(cube_of(old), cube_of(new)).outputs
    tenure, faint = output.features[:2]
    assert (tenure.feature, faint.feature) == ("tenure", "zip")
    assert faint.psi > 2 * tenure.psi
    assert "\ntenure moved most: " in str(diff(cube_of(old), cube_of(new)))


def test_rows_that_are_missing_are_told_and_the_others_compared(tmp_path):
    make_cube(tmp_path / "old", skipped=(1,))
    layout, _ = make_cube(tmp_path / "new", tiles=[0, 1])
    found = diff(tmp_path / "old", tmp_path / "new", output="z")
    whole = phi_of(layout)
    assert found.old.missing == "3 skipped, the first is row 1"
    assert found.new.missing == "5 pending, the first is row 16"
    assert (found.old.n_rows, found.new.n_rows, found.n_both) == (N_ROWS - 3, 16, 14)
    assert (found.old.n_alone, found.old.n_unmatched) == (4, 0)
    assert (found.new.n_alone, found.new.n_unmatched) == (0, 2)
    first = next(each for each in found.outputs[0].features if each.feature == "b")
    assert first.magnitude_new == pytest.approx(np.abs(whole[:16, 1, 1]).mean())
    assert "2 in both have attributions in only one cube" in str(found)


def test_a_damaged_block_is_left_out_and_told(tmp_path):
    make_cube(tmp_path / "old")
    make_cube(tmp_path / "new")
    shard = tmp_path / "new" / "attribution" / "c.1.0.0"
    content = bytearray(shard.read_bytes())
    content[len(content) // 3] ^= 255
    shard.write_bytes(content)
    found = diff(tmp_path / "old", tmp_path / "new")
    assert found.new.missing == "8 damaged (dshap verify lists the damage)"
    assert found.n_both == N_ROWS - 8
    assert found.outputs[0].n_changed == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"names": [*NAMES[:4], "city"]},
         "the new one lacks the feature zip; the old one lacks the feature city"),
        ({"units": "kW"}, "units EUR of the old one, kW of the new one"),
        ({"outputs": ("churn",)}, "the new one lacks the output y; the old one lacks the output churn"),
    ],
)  # fmt: skip
def test_cubes_that_cannot_be_compared_are_refused_with_what_differs(change, said):
    with pytest.raises(InputError, match=re.escape(said)):
        diff(cube_of(OLD), cube_of(NEW, **change))


def on_scale(cube: xr.Dataset, scale: str) -> xr.Dataset:
    """A copy of the cube that states this scale."""
    copy = cube.copy(deep=True)
    copy["attribution"].attrs["scale"] = scale
    return copy


def test_cubes_on_two_scales_are_refused_and_both_are_named(tmp_path):
    make_cube(tmp_path / "old", scale="log-odds")
    make_cube(tmp_path / "new", scale="probability")
    said = "cannot be compared: scale log-odds of the old one, probability of the new one"
    with pytest.raises(InputError, match=said):
        diff(tmp_path / "old", tmp_path / "new")
    with pytest.raises(InputError, match=said):
        diff(on_scale(cube_of(OLD), "log-odds"), on_scale(cube_of(NEW), "probability"))


def test_a_difference_states_the_scale():
    found = diff(on_scale(cube_of(OLD), "log"), on_scale(cube_of(NEW), "log"))
    assert found.scale == found.to_dict()["scale"] == "log"
    assert re.search(r"Wasserstein distance [\d.]+ EUR, log;", str(found))


def test_a_cube_that_states_no_scale_is_compared_with_a_warning():
    """Cubes of earlier versions; where names of outputs differ too, the refusal says both."""
    old, new = cube_of(OLD), on_scale(cube_of(NEW), "score")
    with pytest.warns(
        RuntimeWarning, match=r"in memory \(old\) has no scale, because an earlier version of"
    ):
        found = diff(old, new)
    assert found.scale == "score"
    renamed = new.assign_coords(output=["score of y"])
    with pytest.raises(InputError, match=r"lacks the output score of y; .* has no scale"):
        diff(old, renamed)


def test_cubes_with_features_in_another_order_can_be_compared():
    turned = cube_of(OLD[:, ::-1], NAMES[::-1], id=IDS)
    found = diff(cube_of(OLD, id=IDS), turned)
    assert found.outputs[0].n_changed == 0
    assert found.outputs[0].ndcg.value == 1.0
    both = attributions(n_outputs=2)
    old = cube_of(both, outputs=("a", "b"), id=IDS)
    new = cube_of(planted(both)[:, :, ::-1], outputs=("b", "a"), id=IDS)
    found = diff(old, new)
    assert [each.output for each in found.outputs] == ["a", "b"]
    assert all(each.features[0].feature == "tenure" for each in found.outputs)
    assert found.above({"psi": 0.0}) == [
        f"psi of {each.output} is above 0: tenure {each.features[0].psi:.4g}"
        for each in found.outputs
    ]
    with pytest.raises(InputError, match="unknown output 'c'"):
        diff(old, new, output="c")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({"id": IDS}, {"shop": IDS}, "the key is id (number) of the old one, shop (number) of the new"),
        ({"id": IDS}, {"id": IDS.astype(str)}, "the key is id (number) of the old one, id (text)"),
        ({"id": IDS}, {}, "the key is id (number) of the old one, none of the new one"),
        ({"id": IDS}, {"id": IDS + 0.0}, "the key is id (number) of the old one, id (fraction) of the"),
        ({"id": IDS}, {"id": IDS + 10_000}, "no key of the old one, such as 100, is in the new one"),
        ({}, {}, "without a key, 600 rows cannot be matched with 599"),
    ],
)  # fmt: skip
def test_rows_without_a_key_in_common_are_not_compared(old, new, said):
    first = cube_of(OLD, **old)
    second = cube_of(NEW, **new).isel(instance=slice(int(not new and not old), None))
    found = diff(first, second)
    assert found.outputs[0].features[0].feature == "tenure"
    assert found.outputs[0].rows == ()
    assert "rows are not compared: " + said in str(found)
    assert np.isnan(found.outputs[0].features[0].mean_change)


def test_a_key_twice_is_refused():
    twice = cube_of(OLD, id=np.r_[IDS[:-1], IDS[0]])
    with pytest.raises(InputError, match="has the key 100 twice"):
        diff(cube_of(OLD, id=IDS), twice)
    pending = twice.copy(deep=True)
    pending["status"][7] = Status.PENDING
    found = diff(twice, pending)  # of one order, so that a row is known by its place
    assert (found.n_both, found.old.n_alone, found.outputs[0].n_changed) == (N - 1, 1, 0)


@pytest.mark.parametrize("part_bytes", [1 << 30, 4_000])
def test_keys_of_one_hash_are_different_keys(monkeypatch, part_bytes):
    """All rows of both cubes have one hash of 64 bits; a key that is in one alone is no pair."""
    monkeypatch.setattr(row_pairs, "PART_BYTES", part_bytes)
    keys = keys_of_one_hash(N + 3)
    old = cube_of(OLD, **{name: values[:N] for name, values in keys.items()})
    order = np.random.default_rng(2).permutation(N)[5:]
    phi = np.concatenate([NEW[order], NEW[:3] + 1.0])
    places = np.r_[order, N, N + 1, N + 2]
    new = cube_of(phi, **{name: values[places] for name, values in keys.items()})
    found = diff(old, new)
    assert found.matched == "by key"
    assert (found.n_both, found.old.n_alone, found.new.n_alone) == (N - 5, 5, 3)
    size = np.abs(NEW[order] - OLD[order]).sum(axis=1)[:, 0]
    assert found.outputs[0].n_changed == np.count_nonzero(size)
    assert found.outputs[0].rows[0].key["left"] == str(order[size.argmax()])
    twice = places.copy()
    twice[-1] = twice[4]
    again = cube_of(phi, **{name: values[twice] for name, values in keys.items()})
    said = f"has the key left={twice[4]} right={keys['right'][twice[4]]} twice"
    with pytest.raises(InputError, match=re.escape(said)):
        diff(old, again)


def test_rows_of_other_keys_are_not_in_the_same_order():
    """Their hashes of 64 bits are, row by row."""
    keys = keys_of_one_hash(2 * N)
    old = cube_of(OLD, **{name: values[:N] for name, values in keys.items()})
    new = cube_of(NEW, **{name: values[N:] for name, values in keys.items()})
    found = diff(old, new)
    assert (found.n_both, found.outputs[0].rows) == (0, ())
    assert "rows are not compared: no key of the old one, such as left=0 right=" in str(found)


@pytest.mark.parametrize("size", [0.0, 1e-12])
def test_attributions_that_are_rounding_do_not_drift(size):
    """Those of a column that the model ignores: of either sign, and of any size near 0."""
    old = OLD.copy()
    new = OLD.copy()
    old[:, 4] = size
    new[:, 4] = -size
    (output,) = diff(cube_of(old), cube_of(new)).outputs
    assert [each.psi for each in output.features] == [0.0] * 5


def test_limits_name_the_features_that_lie_above():
    found = diff(cube_of(OLD, id=IDS), cube_of(NEW, id=IDS))
    (output,) = found.outputs
    psi = output.features[0].psi
    assert found.above({"psi": psi}) == []
    assert found.above({"psi": psi / 2, "changed": 0.4, "ndcg_loss": 0.5}) == [
        f"psi is above {psi / 2:g}: tenure {psi:.4g}",
        "changed is above 0.4: 0.5017",
    ]
    with pytest.raises(InputError, match="unknown metric 'spi'; did you mean 'psi'"):
        found.above({"spi": 0.2})
    with pytest.raises(InputError, match="psi=nan: give a limit of at least 0"):
        found.above({"psi": np.nan})


def test_words_json_and_a_notebook():
    names = ["<b>age</b>", "$x$", "a\x1b[31m", "d", "e"]
    found = diff(cube_of(OLD, names, id=IDS), cube_of(NEW, names, id=IDS))
    said = str(found).splitlines()
    assert said[0] == "old: a Dataset in memory, 600 rows"
    assert said[4].startswith(r"a\x1b[31m moved most: Wasserstein distance ")
    assert " EUR; PSI " in said[4]
    assert "301 changed (50.2%)" in str(found)
    assert len(said) < 40
    assert max(map(len, said)) <= 140
    assert "&lt;b&gt;age" in found._repr_html_()
    assert "<b>age" not in found._repr_html_()
    assert found._repr_html_().count("<tr>") == 2 + 1 + 5 + 1 + 10
    assert "\x1b" not in found._repr_html_()
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["outputs"][0]["features"][0]["feature"] == "a\x1b[31m"
    assert repr(found).startswith("Difference(")
    assert "\n" not in repr(found)


def test_one_row_and_many_features():
    wide = np.random.default_rng(0).normal(size=(1, 300, 1))
    names = [f"x{j}" for j in range(300)]
    found = diff(cube_of(wide, names), cube_of(-wide, names))
    assert "288 more features" in str(found)
    assert len(str(found).splitlines()) < 40
    assert np.isnan(found.outputs[0].ndcg.low)
    assert found.outputs[0].ndcg.value == 1.0
    with pytest.raises(InputError, match="no row of a Dataset in memory is explained: 1 skipped"):
        diff(cube_of(wide, names), cube_of(np.full_like(wide, np.nan), names))


def test_nights_and_explanations_by_their_names(tmp_path):
    store = tmp_path / "store"
    (store / "reasons").mkdir(parents=True)
    for run_id in ("20261125T031500Z", "20261126T031500Z"):
        make_cube(store / "reasons" / run_id)
    set_current(store / "reasons", "20261126T031500Z")
    make_cube(store / "others")
    place = store / "reasons"
    found = diff(store, explain="reasons")
    names = [found.old.name, found.new.name]
    assert names == [str(place / "20261125T031500Z"), str(place / "20261126T031500Z")]
    same = diff(place, place, old_run="20261126T031500Z", new_run="20261125T031500Z")
    assert [same.old.name, same.new.name] == names[::-1]
    for given, said in [
        ({"explain": "reason"}, "unknown explain 'reason'; did you mean 'reasons'?"),
        ({}, "contains 2 explanations: give explain, one of others, reasons"),
        ({"explain": "reasons", "new_run": "20261127T031500Z"}, "no cube of the run '20261127T031500Z'"),
        ({"explain": "reasons", "old_run": "x"}, "old_run unknown run 'x'"),
        ({"explain": "reasons", "new_run": "20261125T031500Z"}, "is the first run that the store has"),
        ({"explain": "others"}, "others is a single cube without an earlier run"),
    ]:  # fmt: skip
        with pytest.raises(InputError, match=re.escape(said)):
            diff(store, **given)
    with pytest.raises(InputError, match="has no cube for each run: leave new_run out"):
        diff(place, store / "others", new_run="20261125T031500Z")
    with pytest.raises(InputError, match="new is missing, and old is a Dataset"):
        diff(cube_of(OLD))


def test_sampled_coalitions_widen_the_intervals(tmp_path):
    """The squares of what coalitions do to mean |φ| are its squared standard error, of a store by the
    jackknife groups, of a Dataset by bounds."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 12))
    value = dshap.values.Marginal(lambda rows: rows.sum(axis=1) ** 3, x[:20])
    design = dshap.designs.kernelshap(12, 150)
    cube = dshap.explain(value, x, design=design, store=tmp_path / "cube", progress=False)
    errors = feature_ranking(tmp_path / "cube")["mean_magnitude_std_error"].values
    stored = stored_deviations(tmp_path / "cube")
    np.testing.assert_allclose(np.sqrt((stored**2).sum(axis=0)), errors, rtol=1e-9)
    bounds = np.sqrt((magnitude_errors(cube.load().isel(instance=slice(None))) ** 2).sum(axis=0))
    assert (bounds >= errors * 0.999).all()
    assert errors.max() > 0
    (sampled,) = diff(tmp_path / "cube", tmp_path / "cube").outputs
    plain = cube.load().drop_vars("std_error")
    (exact,) = diff(plain, plain).outputs
    assert sampled.spearman.low < 1.0 == exact.spearman.low
    assert sampled.spearman.value == 1.0
    unknown = cube.load().assign(std_error=np.nan * cube["std_error"])
    (output,) = diff(unknown, plain).outputs
    assert np.isnan(output.spearman.low)
    assert "Spearman 1.000\n" in str(diff(unknown, plain))


def test_the_largest_shift_is_that_of_the_difference(tmp_path):
    make_cube(tmp_path / "old", players=("c", "b", "a"))
    make_cube(tmp_path / "new", tiles=[1, 2])
    found = diff(tmp_path / "old", tmp_path / "new")
    for metric in ("psi", "wasserstein"):
        shift = largest_shift(tmp_path / "old", tmp_path / "new", metric)
        values = {
            (each.feature, output.output): getattr(each, metric)
            for output in found.outputs
            for each in output.features
        }
        assert shift.value == pytest.approx(max(values.values()), rel=1e-12)
        assert values[shift.feature, shift.output] == pytest.approx(shift.value)
    make_cube(tmp_path / "none", tiles=[])
    with pytest.raises(InputError, match=r"no row of .*none is explained"):
        largest_shift(tmp_path / "old", tmp_path / "none", "psi")


def test_texts_have_no_attributions_beyond_their_end():
    phi = attributions(40)
    phi[::2, 3:] = np.nan
    changed = phi.copy()
    changed[4, 2] += 1.0
    changed[6, 3] = 2.0  # its text has become longer
    (output,) = diff(cube_of(phi, id=IDS[:40]), cube_of(changed, id=IDS[:40])).outputs
    assert [row.key["id"] for row in output.rows] == ["118", "112"]
    assert [row.feature for row in output.rows] == ["visits", "tenure"]
    assert [row.change for row in output.rows] == pytest.approx([2.0, 1.0])
    assert all(np.isfinite(each.mean_change) for each in output.features)
    assert output.ndcg.low <= output.ndcg.value


def test_a_temporary_folder_without_room_is_told_before_anything_is_written(monkeypatch):
    usage = type("usage", (), {"free": 1_000})
    monkeypatch.setattr("shutil.disk_usage", lambda place: usage)
    assert diff(cube_of(OLD, id=IDS), cube_of(NEW, id=IDS)).n_both == N
    with pytest.raises(InputError, match=r"which has 1000 B free of .* KiB .* set TMPDIR to"):
        diff(cube_of(OLD, id=IDS), shuffled(id=IDS)[0])


def test_labels_are_those_of_the_new_cube():
    names = ["age", "b", "c", "d", "e"]
    new = cube_of(NEW, names, id=IDS)
    new = new.assign_attrs(columns=json.dumps({"entries": {"c": {"label": "Größe"}}}))
    found = diff(cube_of(OLD, names, id=IDS), new)
    assert "Größe" in str(found)
    assert "Größe" in found._repr_html_()
    assert [each for each in found.above({"psi": 0.0}) if "Größe" in each]
    plain = found.to_dict()["outputs"][0]
    assert plain["labels"] == {"c": "Größe"}
    assert "c" in [each["feature"] for each in plain["features"]]
