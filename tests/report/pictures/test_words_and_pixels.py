"""Words and pixels on the colours of their attributions: numbers that are known, and files that
hold them."""

from __future__ import annotations

import base64
import re
import sys

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

import dshap
from dshap.core.errors import InputError
from dshap.report import Heat, Sentence, heat_map, heat_picture, sentence, sentence_picture
from dshap.report.picture_files import png
from dshap.report.pictures.words_and_pixels import colours, placed

ODD_NAMES = [r"$\frac{1$", "$", "", "_x", "x" * 9_000, "a\x1b[2Jb\nc", "\ud800", "两"]
"""A formula without an end, no name, one that matplotlib hides, a long one, one of commands, one of
half a letter, and one of a letter that the font lacks."""
PHI = np.array([0.5, -1.0, 0.0, 0.25])


def cube_of(phi, names, **more):
    """A cube of one instance and two outputs, the attributions of the second twice those of the
    first."""
    both = np.stack([phi, 2 * phi], axis=-1)[None]
    variables = {"attribution": (("instance", "feature", "output"), both), **more}
    return xr.Dataset(variables, coords={"feature": list(names), "output": ["a", "b"]})


def test_the_largest_is_deepest_and_zero_is_white():
    shades = colours(PHI)
    assert_allclose(shades[1], np.array([70, 120, 255]) / 255)
    assert_allclose(shades[0], (1 + np.array([255, 90, 90]) / 255) / 2)
    assert_array_equal(shades[2], [1, 1, 1])
    assert_array_equal(colours(np.array([np.nan, 0.0])), np.ones((2, 3)))


def test_words_of_a_cube():
    cube = cube_of(PHI, "abcd")
    assert sentence(cube).words == ("a", "b", "c", "d")
    given = sentence(cube, words=["It", "is", "not", "good"], output=1, label="exact")
    assert given.label == "exact"
    assert given.words[3] == "good"
    assert_array_equal(given.attribution, 2 * PHI)


def test_words_of_a_shorter_text_are_its_tokens():
    """NaN stands beyond its length."""
    token = (("instance", "feature"), np.array([["It", "sucks", "", ""]], dtype=object))
    cube = cube_of(np.where([True, True, False, False], PHI, np.nan), range(4), token=token)
    assert sentence(cube).words == ("It", "sucks")
    assert_array_equal(sentence(cube).attribution, PHI[:2])


@pytest.mark.parametrize("words", [["one"] * 5, ["one"] * 3 + ["two"] * 2])
def test_more_words_than_attributions_are_refused(words):
    with pytest.raises(InputError, match="5 words for 4 attributions"):
        sentence(cube_of(PHI, "abcd"), words=words)


def test_words_are_placed_on_lines():
    assert placed(["abc", "de", "f", "ghijkl", "m"], 6) == [(0, 0), (0, 4), (1, 0), (2, 0), (3, 0)]
    assert placed([], 6) == []


def test_sentences_as_html(tmp_path):
    page = sentence_picture(
        [Sentence("<b>", ("a<b", "c"), np.array([1.0, -2.0]))],
        tmp_path / "deep" / "a.html",
        "T & U",
    )
    text = page.read_text()
    assert "<title>T &amp; U</title>" in text
    assert "&lt;b&gt;" in text
    marked = re.findall(r'rgb\((\d+),(\d+),(\d+)\)" title="([^"]+)">([^<]+)<', text)
    assert marked == [("255", "172", "172", "+1", "a&lt;b"), ("70", "120", "255", "-2", "c")]


def pixels_of(path):
    from matplotlib.image import imread

    return (255 * imread(path)[..., :3]).round().astype(int).reshape(-1, 3)


def test_sentences_as_png_have_the_colours(tmp_path):
    """Long words in many lines; text of mathematics is text."""
    words = (*["$x_$"] * 60, "deepest")
    given = Sentence("label", words, np.append(np.zeros(60), -3.0))
    shown = pixels_of(
        sentence_picture([given, Sentence("none", (), np.zeros(0))], tmp_path / "a.png", "title")
    )
    assert np.isin([[70, 120, 255]], shown).all()
    assert (shown == [70, 120, 255]).all(axis=1).sum() > 100
    assert not (shown == [255, 90, 90]).all(axis=1).any()


@pytest.mark.parametrize("channels", [1, 3])
def test_a_heat_map_of_a_cube(channels):
    players = dshap.image_players(2, 4, channels, patch=2)
    image = np.full((2, 4, channels), 51, np.uint8)
    heat = heat_map(cube_of(PHI[:2], players), 0, image, players, output=1, label="x")
    assert_array_equal(heat.attribution, [[1.0, 1.0, -2.0, -2.0]] * 2)
    assert_allclose(heat.image, np.full((2, 4) if channels == 1 else (2, 4, 3), 0.2))
    assert_allclose(heat_map(cube_of(PHI[:2], players), 0, image / 255, players).image, heat.image)


def test_pixels_of_no_player_have_none():
    """Not those of a segmentation that covers the image in part."""
    heat = heat_map(cube_of(PHI[:1], ["a"]), 0, np.zeros((1, 2)), {"a": [0]})
    assert_array_equal(heat.attribution, [[0.5, np.nan]])


def test_players_of_another_cube_are_refused():
    with pytest.raises(InputError, match="not the features of the cube"):
        heat_map(cube_of(PHI, "abcd"), 0, np.zeros((2, 2)), dshap.image_players(2, 2))


def test_heat_maps_as_png_and_html(tmp_path):
    heats = [Heat(f"m{j}", np.zeros((2, 2)), PHI.reshape(2, 2)) for j in range(3)]
    shown = pixels_of(heat_picture(heats, tmp_path / "a.png", "title"))
    assert (shown == [70, 120, 255]).all(axis=1).sum() > 100
    text = heat_picture(heats, tmp_path / "a.html", "title").read_text()
    assert "<h3>title</h3>" in text
    assert 'alt="m0, m1, m2"' in text
    assert base64.b64decode(re.findall(r"base64,([^\"]+)\"", text)[0])[:4] == b"\x89PNG"


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.parametrize("end", ["a.png", "a.html"])
def test_names_of_all_kinds_are_drawn_as_they_are_written(tmp_path, name, end):
    given = Sentence(name, (name, "word"), np.ones(2))
    assert sentence_picture([given, given], tmp_path / end, name).stat().st_size > 100
    heat = Heat(name, np.zeros((2, 2)), PHI.reshape(2, 2))
    assert heat_picture([heat, heat], tmp_path / end, name).stat().st_size > 100


def test_a_word_moves_no_cursor_of_who_reads_the_page(tmp_path):
    page = sentence_picture(
        [Sentence("\x1b]0;", ("a\u202eb",), np.ones(1))], tmp_path / "a.html", "\x07"
    )
    assert "\\x1b]0;" in page.read_text()
    assert "a\\u202eb" in page.read_text()
    assert "<h3>\\x07</h3>" in page.read_text()


def test_a_picture_that_is_too_large_says_so():
    from matplotlib.figure import Figure

    with pytest.raises(
        InputError, match=r"would have 150 x 75,000 pixels, and at most 65,535 .* show fewer"
    ):
        png(Figure(figsize=(1.0, 500.0)))


@pytest.mark.parametrize("end", ["a.jpg", "a"])
def test_another_kind_of_file_is_refused(tmp_path, end):
    with pytest.raises(InputError, match=r"ends in .*\.png or \.html"):
        heat_picture([], tmp_path / end)


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        sentence_picture([], tmp_path / "file" / "a.html")


def test_matplotlib_is_named_where_it_is_missing(tmp_path, monkeypatch):
    """HTML of words needs none."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    given = [Sentence("", ("a",), np.ones(1))]
    assert sentence_picture(given, tmp_path / "a.html").exists()
    with pytest.raises(InputError, match=r'pip install "dshap\[report\]"'):
        sentence_picture(given, tmp_path / "a.png")
