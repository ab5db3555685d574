"""What documents show of the study is what the committed scores give: a change of either without the other is seen."""

import csv
import json
from pathlib import Path

import pytest

from fqf.paper import curves, fractions, n_sweep, projection, scores, table1

PROJECT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch):
    monkeypatch.syspath_prepend(str(PROJECT / "studies"))
    monkeypatch.chdir(PROJECT)


def test_the_tables_of_the_study_are_those_of_its_scores():
    from study import read_all, text_of

    assert text_of(read_all()) == Path("docs/results/study_tables.md").read_text()


def test_the_page_on_contraction_says_what_its_numbers_do():
    from contraction import check_words, page

    kept = json.loads(Path("docs/results/contraction.json").read_text())
    assert page(kept["results"], kept["commit"]) == Path("docs/results/contraction.md").read_text()
    check_words(kept["results"])


@pytest.mark.parametrize(
    ("artefact", "name"), [(curves, "curves"), (scores, "scores"), (n_sweep, "n-sweep"), (table1, "table1")]
)
def test_the_data_of_the_papers_figures_are_those_of_the_scores(artefact, name, tmp_path):
    artefact.make(artefact.Options(out=tmp_path))
    assert (tmp_path / f"{name}.csv").read_text() == Path(f"docs/paper/{name}.csv").read_text()


def test_the_data_of_the_case_study_are_those_that_come_with_fqf(tmp_path):
    fractions.make(fractions.Options(out=tmp_path))
    for name in ("fractions.csv", "fractions_states.csv"):
        assert (tmp_path / name).read_text() == Path(f"docs/paper/{name}").read_text()


def test_the_staircases_of_the_projection_are_computed_as_they_were(tmp_path):
    """To seven digits: another machine's descent may end a little elsewhere."""
    projection.make(projection.Options(out=tmp_path))
    ours, committed = (
        [list(row.values()) for row in csv.DictReader((place / "projection.csv").read_text().splitlines())]
        for place in (tmp_path, Path("docs/paper"))
    )
    assert [row[:2] for row in ours] == [row[:2] for row in committed]
    for row, kept in zip(ours, committed, strict=True):
        assert [float(each) for each in row[2:]] == pytest.approx([float(each) for each in kept[2:]], rel=1e-7)
