"""A report, from run directories to files: a page, its figures, its tables."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from fqf.errors import UserError
from fqf.files import write_whole
from fqf.report import plots
from fqf.report.analysis import Section, games_of
from fqf.report.dopamine import dopamine_curves
from fqf.report.findings import Findings
from fqf.report.markup import Picture, number
from fqf.report.page import GENERATOR, OF, Material, make_page
from fqf.report.protocol import all_runs
from fqf.report.tables import tables, to_csv


class Written(NamedTuple):
    page: Path
    runs: int
    unfinished: int


class Drawing(NamedTuple):
    """A figure to be."""

    name: str
    draw: Callable[[], Figure]
    alt: str
    caption: str


def write_report(
    findings: Findings,
    out: Path,
    watch: Callable[[Iterable[Drawing], int], Iterable[Drawing]] = lambda drawings, _: drawings,
) -> Written:
    """`watch` sees every drawing pass, and how many there are."""
    sections, with_dopamine = findings.sections, "dopamine" in findings.published
    style = make_styles(sections)
    drawings = [each for section in sections for each in section_drawings(section, style, with_dopamine)]
    files: dict[str, bytes] = {}
    pictures = {}
    for drawing in watch(drawings, len(drawings)):
        for kind, content in plots.render(drawing.draw()).items():
            files[f"figures/{drawing.name}.{kind}"] = content
        pictures[drawing.name] = Picture(files[f"figures/{drawing.name}.svg"], drawing.alt, drawing.caption)
    for name, rows in tables(sections, findings.skipped, with_dopamine).items():
        if (table := to_csv(rows)) is not None:
            files[f"tables/{name}.csv"] = table
    names = [name for name in files if name.startswith("tables/")]
    files["index.html"] = make_page(Material(findings, pictures, names)).encode()
    write_files(out, files)
    runs = [run for section in sections for run in all_runs(section.cells)]
    return Written(out / "index.html", len(runs), sum(not run.finished for run in runs))


def refuse_stranger(out: Path) -> None:
    """Only an older report is replaced."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file: name a directory with --out")
    page = out / "index.html"
    is_report = page.is_file() and f'content="{GENERATOR}"' in page.read_text(errors="replace")[:2000]
    if out.is_dir() and any(out.iterdir()) and not is_report:
        raise UserError(f"{out} holds something else than a report: name another directory with --out")


def write_files(out: Path, files: dict[str, bytes]) -> None:
    """The page last: it stands for the rest."""
    for name in ("figures", "tables"):
        shutil.rmtree(out / name, ignore_errors=True)
        (out / name).mkdir(parents=True)
    for name, content in files.items():
        write_whole(out / name, content)


def make_styles(sections: Sequence[Section]) -> dict[str, plots.Style]:
    """One look per group through the whole report."""
    groups = [group for section in sections for group in section.groups["last"]]
    own = dict.fromkeys(group.label for group in groups if not group.is_published)
    published = dict.fromkeys(group.label for group in groups if group.is_published)
    return plots.styles(list(own), list(published))


def section_drawings(section: Section, style: dict[str, plots.Style], with_dopamine: bool) -> list[Drawing]:
    curves = [curve_drawing(section, env, style, with_dopamine) for env in games_of(section.cells)]
    return curves + [each for kind in section.aggregates for each in aggregate_drawings(section, kind, style)]


def curve_drawing(section: Section, env: str, style: dict[str, plots.Style], with_dopamine: bool) -> Drawing:
    runs = {label: games[env] for label, games in section.cells.items() if env in games}
    curves = dopamine_curves().get(env.split("/")[1], []) if with_dopamine and section.family == "atari" else []
    ends = ", ".join(
        f"{label} {number(sum(run.score('last') for run in each) / len(each))}" for label, each in runs.items()
    )
    alt = f"Learning curves on {env}. Mean over seeds of the last score of each run: {ends}."
    name = f"curve_{env.replace('/', '.').replace(':', '_')}"
    return Drawing(name, lambda: plots.draw_learning(env, runs, style, curves), alt, "")


def aggregate_drawings(section: Section, kind: str, style: dict[str, plots.Style]) -> list[Drawing]:
    made, prefix, of = section.aggregates[kind], f"{section.family}_{kind}", OF[kind]
    iqms = ", ".join(f"{label} {number(100 * each['iqm'].value)} %" for label, each in made.estimates.items())
    drawings = [
        Drawing(
            f"{prefix}_estimates",
            lambda: plots.draw_estimates(made, style),
            f"Mean, median, IQM and optimality gap of each group with intervals; IQM: {iqms}.",
            f"Aggregates of the {of}. Bars are intervals; open marks are published scores.",
        ),
        Drawing(
            f"{prefix}_profiles",
            lambda: plots.draw_profiles(made, style),
            f"Performance profiles of {', '.join(made.profiles)}: share of runs above every normalised score.",
            f"Performance profiles of the {of}, with pointwise intervals. A higher line is better.",
        ),
    ]
    published = {group.label for group in made.groups if group.is_published}
    pairs = {pair: estimate for pair, estimate in made.improvements.items() if not published.intersection(pair)}
    if pairs:
        listed = ", ".join(f"{one} over {two} {number(100 * each.value)} %" for (one, two), each in pairs.items())
        drawings.append(
            Drawing(
                f"{prefix}_improvements",
                lambda: plots.draw_improvements(pairs, made.groups, style),
                f"Probability of improvement: {listed}.",
                f"Probability of improvement, of the {of}. Right of the middle the first is better.",
            )
        )
    return drawings
