"""The classes that are chosen, and how their outputs follow from all outputs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dshap.core.errors import InputError
from dshap.predictors.class_choice import class_choice

ALL = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def test_outputs_of_some_classes_in_the_given_order():
    choice = class_choice(["c", "a"], ["a", "b", "c"], 3, "score")
    np.testing.assert_array_equal(choice(ALL), [[3.0, 1.0], [6.0, 4.0]])
    names = choice.names("score", ["score of a", "score of b", "score of c"])
    assert names == ("score of c", "score of a")
    assert class_choice([2, 0], ["0", "1", "2"], 3, "probability").positions == (2, 0)


def test_two_classes_that_share_an_output():
    """The log-odds of the first class are those of the second times −1."""
    choice = class_choice(["no", "yes"], ["no", "yes"], 1, "log-odds")
    np.testing.assert_array_equal(choice(ALL[:, :1]), [[-1.0, 1.0], [-4.0, 4.0]])
    assert choice.names("log-odds", ["log-odds of yes"]) == ("log-odds of no", "log-odds of yes")


@pytest.mark.parametrize(
    ("given", "known", "said"),
    [
        (["dgo"], ["cat", "dog"], "classes: unknown class 'dgo'; did you mean 'dog'? Allowed: cat, dog."),
        (["Köln"], ["Zürich", "Kölln"], "unknown class 'Köln'; did you mean 'Kölln'?"),
        (["a", "a"], ["a", "b"], "classes names 'a' twice: name each class once"),
        ([], ["a", "b"], "classes is empty: give some of a, b, or leave classes out"),
        (["a"], [], "classes are a, and the model has no classes: leave classes out"),
        ("ab", ["a", "b", "c"], "classes is 'ab': give a list of names, such as ['a', 'b']"),
        ("b", ["a", "b"], "classes is 'b': give a list of names, such as ['b']"),
        ("b", [], "classes is 'b': give a list of names, such as ['gold', 'silver']"),
        (None, ["a", "b"], "classes is empty: give some of a, b, or leave classes out"),
        ([1.5], ["a", "b"], "classes is"),
    ],
)  # fmt: skip
def test_other_classes_are_refused_in_a_line(given, known, said):
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        class_choice(given, known, 2, "score")
    assert "\n" not in str(caught.value)


def test_classes_that_were_chosen_before():
    """It said that two outputs belong to no class of three."""
    both = class_choice(["c", "a"], ["a", "b", "c"], 3, "score")
    with pytest.raises(
        InputError, match=r"classes are a, and c, a were chosen before: choose from"
    ):
        class_choice(["a"], ["a", "b", "c"], 2, "score", both)


@pytest.mark.parametrize(
    ("known", "n_outputs", "scale"),
    [
        (["no", "yes"], 1, "unit of the target"),  # predicted labels
        (["a", "b", "c"], 1, "unit of the target"),
        (["a", "b", "c", "d"], 6, "margin"),  # one for each pair of classes
    ],
)
def test_outputs_that_belong_to_no_class(known, n_outputs, scale):
    said = f"has {n_outputs} outputs? for {len(known)} classes: explain predict_proba"
    with pytest.raises(InputError, match=said):
        class_choice([known[0]], known, n_outputs, scale)
