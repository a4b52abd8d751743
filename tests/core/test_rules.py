"""The one check of options: what it takes as what, and what it says of the rest; then every place
that uses it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dshap
from dshap.core.errors import InputError, shown
from dshap.core.rules import (
    MODEL_PENALTY,
    Choice,
    Whole,
    check_fields,
    checked,
    finite_array,
    for_columns,
    of_kind,
)
from dshap.kernels import RBF, Categorical, Embedding, Fourier, Laplacian, Matern, Nystrom, Product
from dshap.models import KernelExpansion, KernelLogistic, KernelRidge
from dshap.values import ConditionalRegression, KernelObservational

COLUMNS = ["a", "b", "c"]


@pytest.fixture
def table(rng):
    return pd.DataFrame(rng.normal(size=(60, 3)), columns=COLUMNS)


def predict(rows):
    rows = np.asarray(rows, dtype=float)
    return rows[:, 0] * rows[:, 1] + np.sin(rows[:, 2])


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (2, 2.0),
        (np.float32(0.5), 0.5),
        (np.array(2.0), 2.0),
        ([1, 2.0, 3], (1.0, 2.0, 3.0)),
        ((1.0, 2.0, 3.0), (1.0, 2.0, 3.0)),
        (np.array([1.0, 2.0, 3.0]), (1.0, 2.0, 3.0)),
        (pd.Series([1.0, 2.0, 3.0]), (1.0, 2.0, 3.0)),
        (pd.Series([1.0, 2.0, 3.0], index=COLUMNS), {"a": 1.0, "b": 2.0, "c": 3.0}),
        ({"c": 3, "a": np.int64(1), "b": 2.0}, {"c": 3.0, "a": 1.0, "b": 2.0}),
        ("median", "median"),
    ],
)
def test_length_scales_of_every_form_come_back_plain(given, plain):
    (found,) = checked(lengthscale=given)
    assert found == plain
    assert type(found) is type(plain)
    json.dumps(found)  # it enters fingerprints


@pytest.mark.parametrize(
    "given",
    [
        None,
        "auto",
        True,
        [],
        {},
        [1.0, -1.0],
        [1.0, np.nan],
        0,
        np.inf,
        [[1.0, 2.0]],
        ["a", "b"],
        object(),
        RBF,
    ],
)
def test_length_scales_that_are_none_are_refused_in_one_line(given):
    for kernel in (RBF, Laplacian, lambda scale: Matern(1.5, scale)):
        with pytest.raises(
            InputError, match=r"^lengthscale (of column \d )?is .*: give a .*"
        ) as caught:
            kernel(given)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "given", [1e-4, np.float64(1e-4), np.array([1e-4]), np.array(1e-4), [1e-4], pd.Series([1e-4])]
)
def test_one_number_in_any_wrapping_is_a_float(given):
    (penalty,) = checked(penalty=given)
    assert penalty == 1e-4
    assert type(penalty) is float
    assert MODEL_PENALTY("penalty", given) == 1e-4
    assert type(KernelRidge(penalty=given).penalty) is float
    assert type(KernelLogistic(penalty=given).penalty) is float


@pytest.mark.parametrize(
    "given",
    [None, -1.0, np.nan, np.inf, "auto", "1e-4", np.logspace(-6, 0, 7), {"a": 1}, True, [[]]],
)
def test_a_penalty_that_is_none_is_refused_in_one_line(given, table):
    for make in (
        lambda: KernelRidge(penalty=given),
        lambda: KernelLogistic(penalty=given),
        lambda: ConditionalRegression(predict, table, RBF(1.0), Nystrom(5), given),
        lambda: KernelObservational(expansion(table), table, Nystrom(5), given),
    ):
        with pytest.raises(
            InputError, match=r"^penalty is .*: give a number .* 0, or 'validate'$"
        ) as caught:
            make()
        assert "\n" not in str(caught.value)


def test_zero_is_a_penalty_of_models_alone():
    """A model may pass through its points; a conditional mean that does follows single rows."""
    assert KernelRidge(penalty=0.0).penalty == 0.0
    with pytest.raises(InputError, match="penalty is 0: give a number above 0, or 'validate'"):
        checked(penalty=0)


def test_whole_numbers_flags_and_words():
    assert [Whole(1)("n", given) for given in (3, np.int32(3), np.array([3]))] == [3, 3, 3]
    for bad in (0, 2.0, True, "3", None, [1, 2], np.zeros((2, 2))):
        with pytest.raises(InputError, match=r"^n is .*: give a whole number of at least 1$"):
            Whole(1)("n", bad)
    assert checked(standardize=np.True_) == [True]
    for bad in (1, "yes", None, [True]):
        with pytest.raises(InputError, match=r"^standardize is .*: give True or False$"):
            checked(standardize=bad)
    with pytest.raises(InputError, match="unknown unseen 'othr'; did you mean 'other'"):
        Choice(("other", "refuse"))("unseen", "othr")
    with pytest.raises(InputError, match="unseen is 3: give 'other' or 'refuse'"):
        Choice(("other", "refuse"))("unseen", 3)


def test_a_class_is_none_of_its_kind():
    """It has the members of a protocol."""
    given = Nystrom(3)
    assert of_kind("embedding", given, Embedding, "one") is given
    for wrong, shown_as in ((Nystrom, "the class Nystrom"), (3, "3")):
        with pytest.raises(InputError, match=f"^embedding is {shown_as}: give one$"):
            of_kind("embedding", wrong, Embedding, "one")


def test_options_of_a_frozen_record_are_plain():
    @dataclass(frozen=True)
    class Options:
        seed: Any
        rho: Any

    options = Options(np.int64(3), np.array([0.5]))
    check_fields(options, "seed", "rho")
    assert options == Options(3, 0.5)
    assert (type(options.seed), type(options.rho)) == (int, float)
    with pytest.raises(InputError, match=r"^rho is 1"):
        check_fields(Options(0, 1.0), "seed", "rho")


def test_kernels_of_a_product_may_be_given_one_after_the_other():
    assert len(Product(each for each in (RBF(1.0), RBF(2.0))).kernels) == 2


@pytest.mark.slow
def test_what_was_given_is_shown_short_and_on_one_line(table):
    assert shown(table) == "a DataFrame of shape (60, 3)"
    assert shown(np.zeros((40, 3))) == "a ndarray of shape (40, 3)"
    assert shown(RBF) == "the class RBF"
    assert shown(-1.0) == "-1.0"
    assert shown("x") == "'x'"
    assert len(shown("x" * 10_000)) < 70
    assert len(shown(list(range(10_000)))) < 70
    assert "\n" not in shown([np.zeros((3, 3))])


def test_entries_of_columns_go_by_position_or_by_name():
    assert for_columns("scale", 2.0, 3, None) == (2.0, 2.0, 2.0)
    assert for_columns("scale", (1.0, 2.0, 3.0), 3, COLUMNS) == (1.0, 2.0, 3.0)
    assert for_columns("scale", {"c": 3.0, "a": 1.0, "b": 2.0}, 3, COLUMNS) == (1.0, 2.0, 3.0)
    for given, names, message in (
        ((1.0, 2.0), COLUMNS, "scale has 2 values for 3 columns"),
        ({"a": 1.0}, COLUMNS, "scale has no entry for column 'b': give one for each of a, b, c"),
        ({"a": 1.0, "B": 2.0}, COLUMNS, "scale: unknown column 'B'"),
        ({"a": 1.0, "b": 2.0, "c": 3.0}, None, "the columns have no names here: give a list of 3"),
    ):
        with pytest.raises(InputError, match=message):
            for_columns("scale", given, 3, names)


def test_arrays_of_finite_numbers():
    assert_array_equal(finite_array("mean", [1, 2], (1,), "(columns,)"), [1.0, 2.0])
    for bad in ("x", [[1.0], [1.0, 2.0]], np.zeros((2, 2)), object(), None, [None, "a"]):
        with pytest.raises(InputError, match=r"^mean (is|of shape) .*: (give|drop) "):
            finite_array("mean", bad, (1,), "(columns,)")
    with pytest.raises(InputError, match=r"mean of shape \(1,\) contains NaN or infinity"):
        finite_array("mean", [np.nan], (1,), "(columns,)")


# ---- every place that takes them


def expansion(table):
    landmarks = table.to_numpy()[:8]
    return KernelExpansion(
        RBF([1.0, 2.0, 3.0]), landmarks, np.ones((8, 1)), np.zeros(1), tuple(COLUMNS)
    )


SCALES = {
    "an array": np.array([1.0, 2.0, 3.0]),
    "a tuple": (1.0, 2.0, 3.0),
    "a Series": pd.Series([1.0, 2.0, 3.0]),
    "a Series with names": pd.Series([3.0, 2.0, 1.0], index=["c", "b", "a"]),
    "a mapping": {"b": 2.0, "c": 3.0, "a": 1.0},
}


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_all_forms_of_a_length_scale_are_the_same_kernel_everywhere(scale, table, tmp_path):
    """The documented RBF(np.array([1., 2.])) failed in ConditionalRegression and
    KernelObservational."""
    plain, y = [1.0, 2.0, 3.0], predict(table)
    for make in (RBF, Laplacian, lambda own: Matern(2.5, own)):
        assert_array_equal(make(scale).bind(3, names=COLUMNS).parameters, plain)
        fitted, other = (
            KernelRidge(make(own), Nystrom(20), 1e-3).fit(table, y) for own in (scale, plain)
        )
        assert_array_equal(fitted.predict(table), other.predict(table))
    model = expansion(table)
    assert_array_equal(
        KernelExpansion(
            RBF(scale), model.landmarks, model.weights, model.intercept, COLUMNS
        ).kernel.parameters,
        plain,
    )
    pairs = (
        [
            ConditionalRegression(predict, table, RBF(own), Nystrom(20), 1e-3)
            for own in (scale, plain)
        ],
        [
            KernelObservational(model, table, Nystrom(20), 1e-3, kernel=RBF(own))
            for own in (scale, plain)
        ],
    )
    for value, other in pairs:
        phi, expected = (dshap.explain(own, table).attribution.values for own in (value, other))
        assert_array_equal(phi, expected)
        assert np.abs(phi).max() > 0.1


def test_kernels_of_single_columns_go_by_name_too(table):
    y = predict(table)
    named = Product({"c": Laplacian(3.0), "a": RBF("validate"), "b": RBF(2.0)})
    listed = Product([RBF("validate"), RBF(2.0), Laplacian(3.0)])
    first, second = (KernelRidge(own, Nystrom(20), 1e-3).fit(table, y) for own in (named, listed))
    assert_array_equal(first.predict(table), second.predict(table))
    assert first.expansion_.kernel.families == ("rbf", "rbf", "laplacian")
    with pytest.raises(InputError, match="Product has no entry for column 'b'"):
        KernelRidge(Product({"a": RBF(1.0), "c": RBF(1.0)}), Nystrom(20)).fit(table, y)
    with pytest.raises(InputError, match="Product has 1 values for 3 columns"):
        KernelRidge(Product([RBF(1.0)]), Nystrom(20)).fit(table, y)


def test_categories_of_a_named_product_are_found(rng):
    frame = pd.DataFrame(
        {"x": rng.normal(size=80), "city": pd.Categorical(rng.choice(["A", "B", "C"], 80))}
    )

    def price(rows):
        return rows["x"].to_numpy() * (rows["city"] == "A").to_numpy()

    kernel = Product({"city": Categorical(0.3), "x": RBF(1.0)})
    phi = dshap.explain(
        ConditionalRegression(price, frame, kernel, Nystrom(30)), frame
    ).attribution.values
    listed = ConditionalRegression(price, frame, Product([RBF(1.0), Categorical(0.3)]), Nystrom(30))
    assert_array_equal(phi, dshap.explain(listed, frame).attribution.values)


def test_validate_inside_a_product_belongs_to_models_too(table):
    """It was taken as "median" in silence."""
    with pytest.raises(InputError, match='lengthscale "validate" belongs to models'):
        ConditionalRegression(
            predict, table, Product([RBF("validate"), RBF(1.0), RBF(1.0)]), Nystrom(5)
        )


def test_an_expansion_binds_its_kernel_where_that_has_numbers(table):
    model = expansion(table)
    assert model.kernel.families == ("rbf",) * 3
    assert_allclose(model.kernel.parameters, [1.0, 2.0, 3.0])
    with pytest.raises(
        InputError, match="lengthscale 'median' needs data: fit the model, or give numbers"
    ):
        KernelExpansion(RBF(), model.landmarks, model.weights, model.intercept)
    with pytest.raises(InputError, match="kernel is the class RBF: give one of"):
        KernelExpansion(RBF, model.landmarks, model.weights, model.intercept)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: Nystrom(x[:40]), r"n_landmarks is a ndarray of shape \(40, 3\): .* go in landmarks="),
        (lambda x: Nystrom(landmarks=40), r"landmarks is 40: give numbers of shape \(r, columns\)"),
        (lambda x: Matern([1.0, 2.0]), r"nu is \[1.0, 2.0\]: Matérn kernels have nu 0.5, 1.5 or 2.5 .*lengthscale"),
        (lambda x: Fourier(7), "n_features is 7: give an even number"),
        (lambda x: Fourier(8, seed=-1), "seed is -1: give a whole number of at least 0"),
        (lambda x: Categorical(1.0), "rho is 1.0: give a number of at least 0 and below 1"),
        (lambda x: Product(RBF()), r"kernels is RBF\(lengthscale='median'\): give a list"),
        (lambda x: Product([RBF]), "kernels contain the class RBF: give one of dshap.kernels for each column"),
        (lambda x: KernelRidge(RBF), r"kernel is the class RBF: give one of dshap.kernels, like RBF\(\)"),
        (lambda x: KernelRidge(embedding=x[:40]), r"embedding is a ndarray of shape \(40, 3\): .*Nystrom\(landmarks="),
        (lambda x: KernelRidge(embedding=500), r"embedding is 500: give dshap.kernels.Nystrom\(n_landmarks\)"),
        (lambda x: KernelRidge(embedding=Nystrom), "embedding is the class Nystrom: give dshap.kernels.Nystrom"),
        (lambda x: ConditionalRegression(predict, x, None, Nystrom(5)), "kernel is None: give one of dshap.kernels"),
        (lambda x: ConditionalRegression(predict, x, RBF(), x[:5]), r"embedding is a ndarray of shape \(5, 3\)"),
    ],
)  # fmt: skip
def test_options_that_are_none_are_told(make, message, rng):
    with pytest.raises(InputError, match=message) as caught:
        make(rng.normal(size=(50, 3)))
    assert "\n" not in str(caught.value)
