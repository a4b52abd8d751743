"""The page of a store: it holds the numbers of its cubes, runs nothing that is not its own, and says
what is missing."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dshap
from dshap.analysis.rankings import student_reach
from dshap.cli import cli
from dshap.core.errors import InputError
from dshap.engine import SilentProgress
from dshap.jobs import Command, job_summary, parse_job, run_recorded
from dshap.report import page
from tests.cube.cubes import make_cube
from tests.jobs.job_files import changed, small_table
from tests.report.pages.test_row_tables import ODD

pytest.importorskip("jinja2", reason="jinja2 is not installed")
N = 700
KINDS = ("interventional", "observational")
HOSTILE = ("<img src=x onerror=pwned()>", "</script><script>pwned()</script>", "\u2028\x1b[31m")


class Parsed(HTMLParser):
    """Elements, texts by section, and the numbers of tables by section."""

    def __init__(self, path: Path):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.texts: dict[str, str] = {}
        self.numbers: dict[str, list[float]] = {}
        self.raw: dict[str, str] = {}
        self.section = ""
        self.inside = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append((tag, given))
        if tag == "section":
            self.section = given["id"]
        if tag in ("script", "style"):
            self.inside = given.get("id", tag)
        if tag == "data":
            self.numbers.setdefault(self.section, []).append(float(given["value"]))

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self.inside = ""

    def handle_data(self, data):
        if self.inside:
            self.raw[self.inside] = self.raw.get(self.inside, "") + data
        else:
            self.texts[self.section] = self.texts.get(self.section, "") + data

    def values_of(self, attribute: str) -> list[str]:
        return [given[attribute] for _, given in self.tags if attribute in given]


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    """Two explanations of a linear model of three columns, which are kept."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(N, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0], [0, 0, 1.0]]))
    frame.columns = ["age", "income", "visits"]
    frame["id"] = np.arange(N) * 2
    root = tmp_path_factory.mktemp("store") / "s"
    for kind in KINDS:
        value = dshap.values.LinearGaussian(
            [2.0, -1.0, 0.5], 3.0, data=frame[["age", "income", "visits"]], kind=kind
        )
        options = {"store": root / kind, "key": "id", "keep_rows": True, "units": "EUR"}
        dshap.explain(value, frame, progress=False, **options)
    return root


@pytest.fixture(scope="module")
def written(store) -> Path:
    about = {"job": "prices", "run": "R7"}
    return page(store, store.parent / "report.html", segments=["age:4"], about=about)


def test_the_numbers_are_those_of_the_cubes(store, written):
    found = Parsed(written)
    cubes = [dshap.open_cube(store / kind)["attribution"].values[:, :, 0] for kind in KINDS]
    order = np.argsort(-np.abs(cubes[0]).mean(axis=0))
    expected = [
        number
        for j in order
        for phi in cubes
        for number in (
            np.abs(phi[:, j]).mean() / np.abs(phi).mean(axis=0).sum(),
            np.abs(phi[:, j]).mean(),
            student_reach(N - 1) * np.abs(phi[:, j]).std(ddof=1) / np.sqrt(N),
            phi[:, j].mean(),
        )
    ]
    np.testing.assert_allclose(found.numbers["first"], expected, rtol=1e-9, atol=1e-12)
    assert len(found.numbers["swarms"]) == 2 * 3 * 5
    assert f"{N:,} explained of {N:,}" in found.texts["explained"]
    assert "prices" in found.texts["explained"]
    assert "R7" in found.texts[""]
    for words in ("Additivity: ", "no coalition was sampled"):
        assert words in found.texts["method"]
    assert "mse_v" not in written.read_text()  # a closed form has none
    assert "(EUR)" in found.texts["first"]
    assert f"all {N} rows" in found.texts["one"]
    assert len(found.numbers["segments"]) == 2 * 4 * (1 + 3)
    assert len(found.numbers["comparison"]) == 3 * 2 * 2
    rows = json.loads(found.raw["rows"])
    assert len(rows["rows"]) == N
    assert rows["files"] is None


def test_nothing_is_loaded_and_only_its_own_script_may_run(written):
    found = Parsed(written)
    assert not any(given.get("src") for _, given in found.tags)
    assert all(link.startswith(("#", "data:,")) for link in found.values_of("href"))
    ids = found.values_of("id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in found.values_of("href") if link.startswith("#")} <= set(ids)
    text = written.read_text(encoding="utf-8")
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg\b)|@import|url\((?!#)", text)
    policy = next(given["content"] for _, given in found.tags if "http-equiv" in given)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "'self'" not in policy
    assert len(found.raw["script"].encode()) <= 23_000
    # what assistive programs read beside each figure
    pictures = [given for _, given in found.tags if given.get("role") == "img"]
    assert len(pictures) == 2 + 3
    assert {given["aria-labelledby"] for given in pictures} <= set(ids)
    tables = sum(tag == "details" and given.get("class") is None for tag, given in found.tags)
    assert tables == 1 + len(pictures)
    assert sum(given.get("class") == "largest" for _, given in found.tags) == 3
    assert [tag for tag, _ in found.tags if tag in ("header", "nav", "main", "footer")] == [
        "header",
        "nav",
        "main",
        "footer",
    ]
    assert not any(given.get("role") == "region" for _, given in found.tags)


def test_no_sentence_is_there_twice(written):
    texts = " ".join(Parsed(written).texts.values())
    sentences = [each.strip() for each in re.split(r"(?<=[.:?])\s", texts)]
    long = [each for each in sentences if len(each.split()) > 6 and not any(map(str.isdigit, each))]
    of_each = (
        "Standard errors",
        "none, as no coalition",
        "Additivity",
        "base value and attributions",
    )
    long = [each for each in long if "\n" not in each and not each.startswith(of_each)]
    assert len(long) > 8
    assert sorted(set(long)) == sorted(long)


def test_words_of_the_method_stand_in_its_appendix_alone(written):
    texts = Parsed(written).texts
    assert "coalition" in texts.pop("method")
    assert not [name for name, text in texts.items() if "coalition" in text.lower()]


def test_an_output_is_selected_without_a_script(tmp_path):
    make_cube(tmp_path / "s", columns={"a": "int64"})
    written = page(tmp_path / "s", tmp_path / "report.html")
    found = Parsed(written)
    radios = [given for tag, given in found.tags if given.get("type") == "radio"]
    assert [given["id"] for given in radios] == ["output0", "output1"]
    assert ["checked" in given for given in radios] == [True, False]
    assert "body:has(#output1:checked) .of:not(.of1) { display: none; }" in written.read_text()
    classes = [given.get("class", "").split() for _, given in found.tags]
    assert sum("of1" in each for each in classes) == sum("of0" in each for each in classes) > 4
    ids = found.values_of("id")
    assert {"o0f0", "o1f0"} <= set(ids)
    assert len(ids) == len(set(ids))


def test_names_are_texts(tmp_path):
    make_cube(tmp_path / "s" / "<i>one", players=HOSTILE, outputs=("<y>", "z"))
    found = Parsed(page(tmp_path / "s", tmp_path / "report.html"))
    assert not {"img", "i", "y"} & {tag for tag, _ in found.tags}
    assert sum(tag == "script" for tag, _ in found.tags) == 2
    for name in (*HOSTILE[:2], "\\u2028\\x1b[31m", "<y>"):
        assert name in found.texts["first"]
    assert json.loads(found.raw["rows"])["features"][1] == HOSTILE[1]


def test_numbers_of_an_axis_stand_beside_its_lines(written):
    """Those of the upright axis above and below the picture of a card, which no line leaves."""
    picture, numbers = [], []
    for tag, given in Parsed(written).tags:
        if tag == "svg" and given.get("height") == "140":
            picture = [float(given["y"]), float(given["y"]) + 140.0]
        elif tag == "svg" and given.get("height") != "140":
            picture = []
        if tag == "text" and picture:
            numbers.append((float(given["y"]), picture))
    assert len(numbers) > 6
    assert all(y <= top or y - 11 >= bottom for y, (top, bottom) in numbers)


def test_missing_rows_are_told_on_top(tmp_path):
    make_cube(tmp_path / "s", tiles=[0, 2], skipped=(1,))
    found = Parsed(page(tmp_path / "s", tmp_path / "report.html"))
    assert "8 of 21 rows are not finished: rows 8 to 15." in found.texts[""]
    assert "2 rows were skipped" in found.texts[""]
    make_cube(tmp_path / "empty", tiles=[])
    found = Parsed(page(tmp_path / "empty", tmp_path / "report.html"))
    assert "21 of 21 rows are not finished: rows 0 to 20." in found.texts[""]
    assert "No row is explained yet." in found.texts["first"]


def test_errors_of_learning_and_of_folds_are_told(tmp_path):
    layout, writer = make_cube(tmp_path / "s", tiles=[0], outputs=("y",))
    errors = [[0.1]] * len(layout.players)
    learning = {"errors": errors, "in_deviations": 0.0027, "rows": 65_536, "of": 1_810_580}
    writer.write_note("learning_error", learning)
    folds = {"coalitions": 254, "folded": 250, "landmarks": 51.3, "largest": 9.98e-5, "rms": 7e-5}
    writer.write_note("fold_error", folds)
    sure = Parsed(page(tmp_path / "s", tmp_path / "report.html")).texts["method"]
    assert "Learning: learned from 65,536 of 1,810,580 rows" in sure
    assert "Folding: 250 of 254 coalitions are folded to 51 landmarks on average" in sure


def test_damaged_rows_are_told_and_the_others_shown(tmp_path):
    make_cube(tmp_path / "s", outputs=("y",))
    shard = tmp_path / "s" / "attribution" / "c.1.0.0"
    content = bytearray(shard.read_bytes())
    content[10] ^= 1
    shard.write_bytes(content)
    found = Parsed(page(tmp_path / "s", tmp_path / "report.html"))
    assert "Rows cannot be read: rows 8 to 15." in found.texts[""]
    assert "no figures of all rows" in found.texts["swarms"]
    assert len(json.loads(found.raw["rows"])["rows"]) == 13


def test_the_command(store, tmp_path, monkeypatch):
    def run(*given: object):
        return CliRunner().invoke(cli, ["report", *map(str, given)])

    told = run(store, "-o", tmp_path / "a" / "report.html", "--all-rows")
    assert told.exit_code == 0, told.output
    assert told.stdout == f"report: {tmp_path / 'a' / 'report.html'}\n"
    assert (tmp_path / "a" / "report_rows" / "000000.js").exists()
    (tmp_path / "file").write_text("")
    for given, said in (
        ((store, "-o", tmp_path), "it is a folder"),
        ((store, "-o", tmp_path / "file" / "report.html"), "cannot be written: "),
        ((tmp_path / "none",), "does not exist"),
        ((store, "--run", "R1"), "contains no cube of the run 'R1'"),
        ((store, "--segment", "ages:5"), "unknown column 'ages'"),
        ((store, "-o", tmp_path / "file"), "a file that dshap did not make exists there"),
    ):
        refused = run(*given)
        assert refused.exit_code == 2, refused.output
        assert said in refused.stderr
        assert refused.stderr.count("\n") == 1
    assert (tmp_path / "file").read_text() == ""
    for given in (["a/report.html"], ["file", "--force"], ["file"]):  # a page of dshap is renewed
        assert run(store, "-o", tmp_path / given[0], *given[1:]).exit_code == 0
        assert (tmp_path / given[0]).stat().st_size > 10_000
    make_cube(tmp_path / "bare")
    refused = run(tmp_path / "bare", "--segment", "age:5", "-o", tmp_path / "c.html")
    assert refused.exit_code == 2
    assert "rows=" not in refused.stderr.replace("keep_rows=", "")
    assert "no values of the column 'age': store them with explain" in refused.stderr
    monkeypatch.setattr("dshap.report.pages.rendering.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"reports need jinja2: pip install \"dshap\[report\]\""):
        page(store, tmp_path / "b.html")


def kept_keys(path: Path) -> set[int]:
    """The keys of the rows that a page holds by itself."""
    return {int(row[0]) for row in json.loads(Parsed(path).raw["rows"])["rows"]}


def test_each_explanation_has_its_own_rows_that_a_column_moved_most(store, written, chromium_page):
    """The rows of `income` differ, as credit goes to the correlated `age` under one of both."""
    chromium_page.open(written)
    place = ["age", "income", "visits"].index("income")
    chromium_page.value(f"location.hash = '#o0f{place}'")
    card = f"#o0f{place} .largest"
    chromium_page.wait_for(f"document.querySelectorAll('{card} table').length === 2")
    heads = f"[...document.querySelectorAll('{card} h4')].map((each) => each.textContent)"
    assert chromium_page.value(heads) == [*KINDS]
    keys = chromium_page.value(
        f"[...document.querySelectorAll('{card} table')].map((table) =>"
        " [...table.querySelectorAll('a')].map((each) => Number(each.textContent)))"
    )
    names = f"[...document.querySelectorAll('{card} .wide')].map((each) => each.ariaLabel)"
    assert chromium_page.value(names) == [
        f"rows that income moved most under {kind}" for kind in KINDS
    ]
    for kind, found in zip(KINDS, keys, strict=True):
        phi = dshap.open_cube(store / kind)["attribution"].values[:, place, 0]
        assert found == (2 * np.argsort(-np.abs(phi))[:20]).tolist()
    assert keys[0] != keys[1]


@pytest.mark.slow
def test_the_script_in_a_browser(store, tmp_path, monkeypatch):
    """Search, near keys, keyboard, all rows from file:// under the page's policy, hostile names."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    monkeypatch.setattr("dshap.report.pages.row_files.FILE_BYTES", 4_000)
    monkeypatch.setattr("dshap.report.pages.page_rows.MAX_ROWS", 100)
    few = page(store, tmp_path / "few.html")
    every = page(store, tmp_path / "every #1%20.html", all_rows=True)
    make_cube(tmp_path / "odd", players=HOSTILE, keys={"name": "string"}, columns={ODD[0]: "int64"})
    hostile = page(tmp_path / "odd", tmp_path / "odd.html")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page()
        requests, faults = [], []
        tab.on("request", lambda request: requests.append(request.url))
        tab.on("console", lambda message: faults.append(message.text))
        tab.on("pageerror", lambda error: faults.append(str(error)))

        def asked(path: Path, key: str) -> str:
            if tab.url != path.as_uri():
                tab.goto(path.as_uri())
            tab.get_by_label("id", exact=True).fill(key)
            tab.keyboard.press("Enter")
            playwright.expect(tab.locator("#said")).not_to_contain_text("Reading")
            return tab.inner_text("#said")

        tab.goto(few.as_uri())
        key = tab.get_by_label("id", exact=True).input_value()
        assert tab.inner_text("#said") == f"Row id {key}. Link to this row"
        assert tab.locator(".waterfall").count() == 2
        assert "“x” is no whole number, as id is" in asked(few, "x")
        gone = asked(few, "333")
        assert re.fullmatch(
            r"This page has no row with the key 333: near it are 3\d\d and 3\d\d\..* --all-rows\)\.",
            gone,
        )
        assert asked(every, "334") == "Row id 334. Link to this row"
        row = dshap.open_cube(store / KINDS[0]).isel(instance=167)
        captions = tab.locator("figcaption", has_text="of id 334").all_inner_texts()
        assert f"to {float(row['prediction'][0]):.3f} (EUR)".replace("-", "−") in captions[0]
        assert asked(every, "333") == "No row has the key 333: near it are 332 and 334."
        assert "near it are 1398." in asked(every, "9999")
        assert "near it are 0." in asked(every, "-4")
        tab.get_by_role("button", name="Highest prediction").press("Enter")
        best = int(dshap.open_cube(store / KINDS[0])["prediction"].values.argmax())
        assert tab.inner_text("#said").startswith(f"Row id {2 * best}.")
        # from a bar to the dependence, to the rows that it moved most, to one row with its address
        tab.goto(few.as_uri())
        tab.locator("#first .chart a").first.click()
        place = re.fullmatch(r"#o0f(\d)", tab.evaluate("location.hash"))[1]
        listed = tab.locator(f"#o0f{place} .largest a")
        assert listed.count() == 2 * 20
        phi = dshap.open_cube(store / KINDS[0])["attribution"].values[:, int(place), 0]
        largest = (2 * np.argsort(-np.abs(phi))[:20]).tolist()
        assert [int(each) for each in listed.all_inner_texts()][:20] == largest
        listed.nth(2).click()
        assert tab.evaluate("location.hash") == f"#row={largest[2]}"
        assert tab.inner_text("#said").startswith(f"Row id {largest[2]}.")
        tab.goto(f"{every.as_uri()}#row=334")
        playwright.expect(tab.locator("#said")).to_contain_text("Row id 334.")
        tab.goto("about:blank")
        tab.goto(f"{few.as_uri()}#row=1,2")
        assert "An address names a row by 1 columns: #row=id." in tab.inner_text("#said")
        shutil.rmtree(tmp_path / "every #1%20_rows")
        tab.goto(every.as_uri())
        gone = next(each for each in range(0, 2 * N, 2) if each not in kept_keys(every))
        said = asked(every, str(gone))
        assert "cannot be read: the folder every #1%20_rows belongs beside this page" in said
        assert faults[:-1] == []
        assert "ERR_FILE_NOT_FOUND" in faults[-1]
        tab.goto(hostile.as_uri())
        assert tab.locator(".waterfall").count() == 1
        assert HOSTILE[0] in tab.inner_text("#row")
        assert tab.locator("img").count() == 0
        assert len(faults) == 1
        browser.close()
    assert all(url.startswith("file:") for url in requests)


@pytest.mark.slow
def test_a_job_ends_with_its_page(tmp_path, monkeypatch):
    """A segment that cannot be shown hides nothing; a second run leaves the page as it is."""
    monkeypatch.chdir(tmp_path)
    small_table().to_parquet("table.parquet")
    one = ("explain", [{"name": "one", "value": "kernel_interventional"}])
    told = ("report", {"page": "out/report.html", "segments": ["hum"]})
    job = parse_job(changed(one, told))
    ended = run_recorded(job, SilentProgress(), Command("job.toml"))
    shown = job_summary(job, ended.result)
    written = tmp_path / "out" / "report.html"
    assert f"page: {written}" in shown.lines
    assert shown.content["page"] == written
    found = Parsed(written)
    assert ended.facts.run_id in found.texts[""]
    assert "more than 200 values" in found.texts["segments"]
    assert f"kind {job.source.kind}" in found.texts["explained"]
    written.write_text("as it is")
    job_summary(job, run_recorded(job, SilentProgress(), Command("job.toml")).result)
    assert written.read_text() == "as it is"
    with pytest.raises(InputError, match=r"pages are HTML files: give a path that ends in .html"):
        parse_job(changed(one, ("report", {"page": "report.pdf"})))
