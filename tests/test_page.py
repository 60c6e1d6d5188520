"""The page in a real browser: it loads, shows every panel, complains of nothing, its numbers are right."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from banister.report.figures import label_places, spread, svg
from banister.report.page import drawn
from banister.report.style import COLOURS, LOOKS
from banister.simulation.store import Store
from banister.studies import manifest
from banister.studies.claims import CLAIMS
from banister.studies.competitors import COMPETITORS, EVERYONE
from banister.studies.headlines import quick_headlines, remarks
from banister.studies.panels import PANELS
from banister.studies.publish import write_report
from banister.studies.workload import workload_for

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
TRIALS = 6


def fake_rows() -> pl.DataFrame:
    """Rows of every panel's points and policies, with made-up numbers: the page is under test, not trials."""
    rng = np.random.default_rng(0)
    keys = [
        {"point": point.name, "policy": policy, "trial": trial, "epoch": epoch}
        for point, policy in workload_for(PANELS.values(), trials=1).trials
        for trial in range(TRIALS)
        for epoch in range(1, (9 if point.environment == "contraction" else point.epochs) + 1)
    ]
    n = len(keys)
    drawn_by = {name: rng.random(n) for name in ("certified", "error", "seconds", "subspace_distance")}
    fixed = {
        "decisions": 100,
        "literal_violations": 4,
        "cumulative_violations": 2,
        "relative_shortfall": 0.1,
        "wall": 1.0,
        "warnings": 0,
    }
    return pl.DataFrame(keys).with_columns(
        regret=pl.Series(rng.uniform(1, 9, n)),
        violations=pl.Series(rng.integers(0, 3, n)),
        **{name: pl.Series(values) for name, values in drawn_by.items()},
        **{name: pl.lit(value) for name, value in fixed.items()},
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    fake_rows().write_parquet(folder / "results.parquet")
    work = workload_for(PANELS.values(), trials=TRIALS)
    record = manifest.describe(work, kind="reproduce", panels=list(PANELS), command="banister reproduce")
    Store(folder).write_manifest(record)
    write_report(folder, Store(folder).rows(), pictures=False)
    return folder


class Reader(HTMLParser):
    """The page as the browser holds it: panels with their rows, claims, addresses, the root's attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.panels: dict[str, list[dict[str, str | None]]] = {}
        self.drawings: dict[str, int] = {}
        self.csv: dict[str, str] = {}
        self.claims: dict[str, str | None] = {}
        self.root: dict[str, str | None] = {}
        self.addresses: list[str] = []
        self._panel = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.addresses += [v for k, v in attrs if k in ("src", "href", "xlink:href") and v]
        if tag == "html":
            self.root = found
        elif tag == "figure":
            self._panel = str(found["data-panel"])
            self.panels[self._panel], self.drawings[self._panel] = [], 0
        elif tag == "path" and self._panel:
            self.drawings[self._panel] += 1
        elif tag == "tr" and "data-mean" in found:
            self.panels[self._panel].append(found)
        elif tag == "a" and "download" in found:
            self.csv[self._panel] = str(found["href"])
        elif tag == "details" and "data-verdict" in found:
            self.claims[str(found["id"])] = found["data-verdict"]


def browse(page: Path) -> tuple[str, list[str]]:
    """The page's elements after its scripts ran, and what the console was told."""
    if BROWSER is None:
        if os.environ.get("BANISTER_REQUIRE_BROWSER"):
            pytest.fail(
                "BANISTER_REQUIRE_BROWSER is set, but there is no Chromium; apt-get install chromium."
            )
        pytest.skip("no Chromium is installed; apt-get install chromium to drive the page.")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0",
               f"--user-data-dir={page.parent / 'profile'}", "--dump-dom", page.as_uri()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def seen(run: Path) -> tuple[Reader, list[str]]:
    text, console = browse(run / "report.html")
    return Reader(text), console


def test_the_console_is_heard(tmp_path: Path) -> None:
    page = tmp_path / "broken.html"
    page.write_text("<script>nothing.there()</script>")
    assert "nothing is not defined" in browse(page)[1][0]


def test_every_panel_is_shown_and_drawn(seen: tuple[Reader, list[str]]) -> None:
    page, console = seen
    assert console == []
    assert list(page.panels) == list(PANELS)
    assert page.root["data-ready"] == str(len(PANELS))  # the page's own script counted its figures
    assert all(count > 10 for count in page.drawings.values())


def test_every_claim_has_its_verdict(seen: tuple[Reader, list[str]]) -> None:
    assert list(seen[0].claims) == [f"claim-{claim.id}" for claim in CLAIMS]
    assert None not in seen[0].claims.values()


def test_nothing_is_loaded_from_elsewhere(seen: tuple[Reader, list[str]]) -> None:
    assert all(address.startswith(("#", "data:")) for address in seen[0].addresses)


def test_the_pages_numbers_are_those_of_the_parquet_file(run: Path, seen: tuple[Reader, list[str]]) -> None:
    """Means taken here from the file, without the code that made the page."""
    rows = pl.read_parquet(run / "results.parquet")
    for panel_id, column, scale in (("1b", "regret", 1.0), ("1c", "violations", 1.0), ("1a", "error", 100.0)):
        for shown in seen[0].panels[panel_id]:
            point = PANELS[panel_id].points[PANELS[panel_id].xs.index(float(str(shown["data-x"])))]
            mine = rows.filter(point=point.name, policy=shown["data-policy"])
            if column == "error":
                mine = mine.filter(pl.col("epoch") == pl.col("epoch").max())
            mean = scale * float(mine[column].sum()) / TRIALS
            assert float(str(shown["data-mean"])) == pytest.approx(mean, rel=1e-12)
            assert int(str(shown["data-trials"])) == TRIALS
    last = [row for row in seen[0].panels["2"] if row["data-x"] == "8.0" and row["data-policy"] == "paper"]
    total = rows.filter(point="synthetic,epochs=8", policy="paper")["regret"].sum() / TRIALS
    assert float(str(last[0]["data-mean"])) == pytest.approx(total)


def test_the_csv_holds_the_panels_table(run: Path, seen: tuple[Reader, list[str]]) -> None:
    tables = {each.panel.id: each.table for each in drawn(Store(run).rows(), list(PANELS.values()))}
    for panel_id, address in seen[0].csv.items():
        text = base64.b64decode(address.split(",", 1)[1])
        assert pl.read_csv(text)["mean"].to_list() == pytest.approx(tables[panel_id]["mean"].to_list())
    assert set(seen[0].csv) == set(PANELS)


def test_labels_keep_their_distance() -> None:
    placed = spread(np.array([0.0, 0.01, 0.5, 0.5, 1.0]), 0.1)
    assert np.diff(np.sort(placed)).min() >= 0.1 - 1e-12
    assert (np.argsort(placed, kind="stable") == np.arange(5)).all()


def test_labels_stay_between_title_and_axis() -> None:
    for heights in ([1.0, 1.0, 0.99], [0.0, 0.0], [0.5] * 15, [1.0] * 20, [np.nan, 0.3]):
        places = np.sort(label_places(np.array(heights)))
        assert places[0] >= 0.02 - 1e-12
        assert places[-1] <= 0.98 + 1e-12
        assert np.diff(places).min() >= min(0.075, 0.96 / (len(heights) - 1)) - 1e-12


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_every_colour_can_be_read_on_white_and_on_the_dark_page() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    for light, dark in COLOURS.values():
        assert contrast(light, "#ffffff") >= 4.5
        assert contrast(dark, "#14171b") >= 4.5


def test_every_policy_has_a_look_of_its_own() -> None:
    assert set(COMPETITORS) <= set(LOOKS)
    shown = [(look.hue, look.marker, str(look.line)) for name, look in LOOKS.items() if name in EVERYONE]
    assert len(shown) == len(set(shown))


def test_figures_follow_the_pages_theme(run: Path) -> None:
    text = (run / "report.html").read_text(encoding="utf-8")
    assert "var(--blue, #0072b2)" in text
    assert text.count("--blue: #3b9fdc;") == 2  # by the system's wish and by the button


def test_a_regret_that_is_rounding_does_not_stretch_the_axis():
    def axis_of(least: float) -> str:
        means = {"x": [1.0, 2.0], "mean": [least, 900.0], "low": [least, 800.0], "high": [least, 950.0]}
        return svg(PANELS["6e"], pl.DataFrame({"policy": ["certified"] * 2, **means}))

    assert "10^{-9}" not in axis_of(3e-15).replace("$", "")
    assert "10^{-6}" not in axis_of(3e-15)
    assert "10^{-3}" in axis_of(3e-5).replace("$", "")


def test_a_page_opens_with_how_many_trials_were_played():
    rows = fake_rows()
    record = {"trials": {"movielens": {}}}
    assert remarks(rows, record)[0].startswith("Trials of a policy at a point: 6 in the paper’s panels, 6 in")
    few = rows.filter((pl.col("point") != "rated") | (pl.col("trial") < 2))
    assert "6 in the paper’s panels, 2 to 6 in what is beyond" in remarks(few, record)[0]


def test_violations_on_real_ratings_are_not_counted_as_the_certificates():
    rows = fake_rows().with_columns(violations=pl.col("point").str.starts_with("rated").cast(pl.Int64))
    assert quick_headlines(rows)[0].figure.startswith("0 of ")
