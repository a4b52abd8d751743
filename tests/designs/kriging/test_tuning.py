"""The table of tuned numbers: one place, each with its experiment."""

import ast
import re
from pathlib import Path

import pytest

from dshap.designs.kriging import tuning

TABLE = Path(tuning.__file__)
OTHERS = sorted(set(TABLE.parent.glob("*.py")) - {TABLE})


def constants(source):
    """Name -> the text below it, of each constant of a module."""
    body = ast.parse(source).body
    for node, below in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            if isinstance(target, ast.Name) and re.fullmatch(r"_?[A-Z][A-Z_0-9]*", target.id):
                yield target.id, below.value.value if is_text else ""


TUNED = dict(constants(TABLE.read_text()))


@pytest.mark.parametrize("name", TUNED)
def test_each_says_what_it_is_and_what_is_known_of_it(name):
    """What it is in its first line, the experiment that set it, and what half or twice costs; of a
    position in a random stream the first alone."""
    what, *known = TUNED[name].split("\n\n")
    assert what
    assert what[0].isupper()
    assert what.rstrip().endswith(".")
    assert "\n" not in what.rstrip()
    if not what.startswith("Position"):
        wanted = "\n".join(known)
        assert re.search(r"^Set by: \S", wanted, re.M)
        assert re.search(r"^Half, twice: \S", wanted, re.M)


def test_each_is_used():
    text = "\n".join(path.read_text() for path in OTHERS)
    uses = {name: len(re.findall(rf"\b{name}\b", text)) for name in TUNED}
    of_the_table = {"FINE_DECAYS"}
    assert {name for name, n in uses.items() if n < 2} <= of_the_table | {
        "MAX_KRIGED",
        "MAX_KRIGED_PLAYERS",
    }


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_no_number_is_tuned_elsewhere(path):
    """Findings of nothing are no number."""
    assert dict(constants(path.read_text())).keys() <= {"NOTHING_FOUND"}
