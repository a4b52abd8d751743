"""The release: what it refuses, and the example that it runs; packages are built by `make
release-check`."""

from __future__ import annotations

import pytest

from tests import release
from tests.pages import ROOT

IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")


@pytest.fixture
def checkout(tmp_path):
    """A repository of two committed files whose version is 1.2.0."""
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.0 (2026-01-31)\n")
    release.git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def commit(folder):
    release.git(folder, "add", "--all")
    release.git(folder, *IDENTITY, "commit", "--quiet", "--message", "change")


def test_a_clean_checkout_is_released(checkout):
    assert release.faults_of(checkout, "1.2.0", is_check=False) == []


def test_changed_and_new_files_are_refused(checkout):
    (checkout / "new.py").touch()
    (fault,) = release.faults_of(checkout, "1.2.0", is_check=True)
    assert fault == "1 files are not committed, such as new.py"


def test_a_version_that_has_its_tag_is_refused(checkout):
    release.git(checkout, "tag", "v1.2.0")
    release.git(checkout, "tag", "v1.2.0.1")
    (fault,) = release.faults_of(checkout, "1.2.0", is_check=True)
    assert fault.startswith("the tag v1.2.0 exists")


def test_two_versions_are_refused(checkout):
    (fault,) = release.faults_of(checkout, "1.3.0", is_check=True)
    assert fault == "pyproject.toml has version 1.2.0, dshap.__version__ is 1.3.0"


@pytest.mark.parametrize("heading", ["## 1.2.0 (unreleased)", "## 1.2.0", "## 1.1.0 (2025-01-31)"])
def test_a_release_needs_its_date_in_the_changelog(checkout, heading):
    (checkout / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n")
    commit(checkout)
    (fault,) = release.faults_of(checkout, "1.2.0", is_check=False)
    assert "put the date there" in fault
    assert release.faults_of(checkout, "1.2.0", is_check=True) == []


def test_the_example_is_the_first_section_of_readme():
    text = release.first_example((ROOT / "README.md").read_text())
    compile(text, "README.md", "exec")
    assert "dshap.report.beeswarm(cube)" in text
    assert "KernelRidge" not in text


def test_a_fault_ends_with_status_1_before_anything_is_built(monkeypatch, capsys):
    monkeypatch.setattr(release, "faults_of", lambda *_, is_check: ["a reason"])
    monkeypatch.setattr(release, "build", pytest.fail)
    assert release.main(["--check"]) == 1
    assert "- a reason" in capsys.readouterr().err


def test_a_command_that_fails_leaves_no_tag(monkeypatch, capsys):
    monkeypatch.setattr(release, "faults_of", lambda *_, is_check: [])
    monkeypatch.setattr(release, "build", lambda _: release.run("false"))
    monkeypatch.setattr(release, "git", pytest.fail)
    assert release.main([]) == 1
    assert capsys.readouterr().err.endswith("is not released: false failed\n")
