"""What the README shows runs, and ends in what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_ten_lines_end_in_the_printed_cube(tmp_path):
    code, shown = re.search(r"## Ten lines\n\n```python\n(.*?)```\n\n```\n(.*?)```", README, re.DOTALL).groups()
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for line in shown.strip().splitlines():
        assert line.split("...")[0].rstrip() in done.stdout, line
    assert (tmp_path / "attributions.zarr").is_dir()


def test_what_is_learnt_once_explains_other_rows(tmp_path):
    ten, once = (
        re.search(rf"## {title}\n\n```python\n(.*?)```", README, re.DOTALL)[1]
        for title in ("Ten lines", "Learn once, explain tomorrow's rows")
    )
    done = subprocess.run([sys.executable, "-c", ten + once], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "MSE_v 0." in done.stdout and "100 rows, 62 coalitions" in done.stdout
    assert (tmp_path / "prepared" / "prepared.json").exists()


def test_how_sure_it_is(tmp_path):
    """Each of the three cubes holds what its line says, and no warning is given."""
    ten, sure = (
        re.search(rf"## {title}\n.*?```python\n(.*?)```", README, re.DOTALL)[1]
        for title in ("Ten lines", "How sure it is")
    )
    assert sure.count("\ncube = ") == 3
    shown = re.sub(r"\n(cube = .*)", r"\n\1\nprint(sorted(map(str, cube.data_vars)))", sure)
    run = [sys.executable, "-W", "error::RuntimeWarning", "-c", ten + shown]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    errors, rounds, pairs = done.stdout.strip().splitlines()[-3:]
    assert "std_error" in errors and "n_coalitions" in rounds and "relative_error" in rounds and "interaction" in pairs


def test_classifiers_and_a_background(tmp_path):
    ten = re.search(r"## Ten lines\n.*?```python\n(.*?)```", README, re.DOTALL)[1]
    code, shown = re.search(r"## Classifiers, .*?```python\n(.*?)```\n\n```\n(.*?)```", README, re.DOTALL).groups()
    code += "print(cube.explained_class.attrs['flag_meanings'], cube.attribution.attrs['link'])"
    done = subprocess.run([sys.executable, "-c", ten + code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert shown.split(":")[0] in done.stdout
    assert "low high log odds of the predicted class" in done.stdout


def test_text_columns(tmp_path):
    ten = re.search(r"## Ten lines\n.*?```python\n(.*?)```", README, re.DOTALL)[1]
    code = re.search(r"```python\n(import pandas as pd\n.*?)```", README, re.DOTALL)[1]
    done = subprocess.run([sys.executable, "-c", ten + code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\njob +[\d.-]+\nis_new +[\d.-]+\nage +[\d.-]+\n", done.stdout)


def test_coming_from_shap(tmp_path):
    pytest.importorskip("shap", reason="shap is not installed")
    ten, code = (
        re.search(rf"## {title}\n.*?```python\n(.*?)```", README, re.DOTALL)[1]
        for title in ("Ten lines", "Coming from shap")
    )
    run = [sys.executable, "-c", ten + code + "print(type(explanation).__name__, explanation.values.shape)"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "Explanation (50, 6)" in done.stdout


def test_every_path_that_the_readme_names_is_there():
    root = Path(__file__).parents[1]
    for path in re.findall(r"\]\(([\w./-]+)\)", README):
        assert (root / path).exists(), path


def test_other_options_go_to_another_store():
    """The last of the commands changed the model of a finished store, which is refused with status 4."""
    block = re.search(r"## From the command line\n\n```\n(.*?)```", README, re.DOTALL)[1]
    changed = [line for line in block.splitlines() if "--set" in line]
    assert changed and all("--set job.store=" in line for line in changed)
