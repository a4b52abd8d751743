"""The design of a closed form."""

import numpy as np
import pytest

from dshap.designs import ClosedFormDesign
from dshap.errors import DshapError


def test_the_two_ends_alone_count_nothing():
    block = ClosedFormDesign(3, n_replicates=4).block(0, 2)
    assert block.masks.tolist() == [[False] * 3, [True] * 3] and not block.score.any()
    assert ClosedFormDesign(3, 4).with_players(5) == ClosedFormDesign(5, 4)
    assert ClosedFormDesign(3, 4).fingerprint() == {"design": "closed_form", "n_players": 3, "n_replicates": 4}


def test_there_is_no_sum_to_finish():
    zeros = np.zeros((1, 3, 1))
    with pytest.raises(DshapError, match="no sum over coalitions"):
        ClosedFormDesign(3).finish(zeros, zeros[:, 0], zeros[:, 0])
    with pytest.raises(DshapError, match="no sum over coalitions"):
        ClosedFormDesign(3).replicates(zeros, zeros[None], zeros[:, 0], zeros[:, 0])
