"""Images: pixels, patches and segments as players; images of one size as rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dshap
from dshap.core.errors import InputError
from dshap.core.images import image_players, image_rows, player_map
from dshap.core.players import Players

SEGMENTS = np.array([[5, 5, 2], [5, 2, 2]])


def test_a_pixel_holds_its_channels():
    assert image_players(2, 2, 3) == {
        "0,0": [0, 1, 2],
        "0,1": [3, 4, 5],
        "1,0": [6, 7, 8],
        "1,1": [9, 10, 11],
    }


def test_patches_have_the_name_of_their_first_pixel_and_may_be_cut():
    players = image_players(3, 5, 2, patch=2)
    assert list(players) == ["0,0", "0,2", "0,4", "2,0", "2,2", "2,4"]
    assert players["0,2"] == [4, 5, 6, 7, 14, 15, 16, 17]  # two rows of two pixels of two channels
    assert players["2,4"] == [28, 29]
    assert sorted(column for held in players.values() for column in held) == list(range(30))


def test_segments_are_players_in_the_order_of_their_first_pixels():
    assert image_players(2, 3, segments=SEGMENTS) == {
        "segment 5": [0, 1, 3],
        "segment 2": [2, 4, 5],
    }


@pytest.mark.parametrize(
    "players", [image_players(2, 3, 2), image_players(2, 3, 2, segments=SEGMENTS)]
)
def test_players_of_a_value_function_keep_that_order(players):
    made = Players.of(12, None, players)
    assert made.fingerprint() == players
    assert list(made.fingerprint()) == list(players)


@pytest.mark.parametrize("channels", [1, 3])
def test_the_map_says_whose_each_pixel_is(channels):
    assert_array_equal(
        player_map(image_players(2, 3, channels, segments=SEGMENTS), 2, 3), [[0, 0, 1], [0, 1, 1]]
    )
    assert_array_equal(player_map(image_players(2, 3, channels), 2, 3), [[0, 1, 2], [3, 4, 5]])


def test_a_map_of_other_images_is_refused():
    with pytest.raises(InputError, match="not those of images of 2 x 2 pixels"):
        player_map(image_players(3, 3), 2, 2)


@pytest.mark.parametrize("shape", [(4, 2, 3), (4, 2, 3, 3)])
def test_rows_are_pixel_by_pixel(shape):
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    rows = image_rows(images)
    assert rows.dtype == np.float64
    assert_array_equal(rows, images.reshape(4, -1))
    assert_array_equal(image_rows(list(images)), rows)


def test_images_of_mixed_sizes_are_refused_by_their_sizes():
    with pytest.raises(InputError, match=r"images of 2 sizes \(2 x 3, 3 x 3\)"):
        image_rows([np.zeros((2, 3)), np.zeros((3, 3)), np.zeros((2, 3))])


@pytest.mark.parametrize(
    ("segments", "more"),
    [
        (np.zeros((3, 2), int), {}),
        (np.zeros((2, 3)), {}),
        ([[1], [1, 2]], {}),
        (SEGMENTS, {"patch": 2}),
    ],
    ids=["other shape", "no integers", "ragged", "patches too"],
)
def test_segments_that_are_none_are_refused(segments, more):
    with pytest.raises(InputError, match="segments are"):
        image_players(2, 3, segments=segments, **more)


def test_pixels_of_colour_images_are_explained_whole(in_this_process):
    """A sum over patches: each is worth its own pixels' weighted sum, whatever the channel."""
    rng = np.random.default_rng(1)
    images, reference, weights = (
        rng.random((3, 4, 4, 3)),
        np.full((1, 48), 0.5),
        rng.normal(size=48),
    )
    players = dshap.image_players(4, 4, 3, patch=2)
    value = dshap.values.Marginal(lambda rows: rows @ weights, reference, players=players)
    rows = dshap.image_rows(images)
    cube = dshap.explain(value, rows, progress=False)
    assert list(cube.feature.values) == list(players)
    expected = [((rows - reference) * weights)[:, held].sum(axis=1) for held in players.values()]
    assert_allclose(cube.attribution[..., 0], np.transpose(expected), atol=1e-12)
