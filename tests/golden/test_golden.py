"""Stored numbers, and the names of what is learnt, are those of the file that was written when they
were proved.

Digests of blocks, and names of states, which follow from the bits of fitted models, are compared
where the linear algebra is that of the file, a few numbers of every variable and the kinds of
states on any machine.  Where a step changes a number for a good reason: `python -m tests.golden`,
and the reason in its commit.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.golden.cases import CASES, FILE, found, processor

GOLDEN = json.loads(FILE.read_text())
CLOSE, ROUNDING = 1e-7, 1e-13
"""Relative: roundings of another processor, times the condition of a ridge solve; and of what is
rounding itself."""

pytestmark = pytest.mark.filterwarnings("ignore")


def test_every_case_is_kept_and_every_kept_one_is_run():
    assert set(GOLDEN["cases"]) == set(CASES)
    assert len(CASES) >= 14


def kinds(states: list[str]) -> list[str]:
    """What states are of, such as "moments", without their digests."""
    return sorted(name.split("-")[0] for name in states)


@pytest.mark.cluster
@pytest.mark.parametrize("case", CASES)
def test_numbers_and_names_do_not_change(case, tmp_path, client):
    kept, now = GOLDEN["cases"][case], found(case, tmp_path / "out.zarr", client)
    assert set(now) == set(kept)
    for cube, own in kept.items():
        assert kinds(now[cube]["states"]) == kinds(own["states"])
        assert set(now[cube]["blocks"]) == set(own["blocks"])
        assert own["blocks"]
        assert set(now[cube]["numbers"]) == set(own["numbers"])
        for name, numbers in own["numbers"].items():
            scale = np.nanmax(np.abs(numbers), initial=0.0) or 1.0
            np.testing.assert_allclose(
                now[cube]["numbers"][name],
                numbers,
                rtol=0,
                atol=CLOSE * scale + ROUNDING,
                err_msg=name,
            )
        if processor() == GOLDEN["processor"]:
            assert now[cube]["states"] == own["states"]
            assert now[cube]["blocks"] == own["blocks"]
