"""The page of a report: one HTML file that needs no other, no network, and no script to be read."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from fqf.report import protocol
from fqf.report.analysis import FEW_SEEDS, KINDS, Aggregates, Section, games_of, left_out, seed_words
from fqf.report.dopamine import PROTOCOL, SOURCE
from fqf.report.findings import Findings
from fqf.report.markup import Cell, Picture, interval, number, plural, scroll, show_picture, sortable
from fqf.report.plots import NAMES
from fqf.report.scores import TABLE, data, table1
from fqf.report.statistics import CONFIDENCE, Estimate
from fqf.report.tables import above_table, posix

GENERATOR = "fqf report"
CONTENT = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
OF = {"last": "last score of a run", "best": "best score of a run"}


class Material(NamedTuple):
    """All that the page shows."""

    findings: Findings
    pictures: Mapping[str, Picture]
    """By name of the figure's files."""
    files: Sequence[str]
    """The CSV files beside the page."""


def make_page(material: Material) -> str:
    runs = [run for section in material.findings.sections for run in protocol.all_runs(section.cells)]
    agents, families = (
        sorted({run.config["agent"] for run in runs}),
        [each.family for each in material.findings.sections],
    )
    title = f"{', '.join(agents)} on {', '.join(families)}: fqf report"
    body = "\n".join(part for part in parts(material, len(runs)) if part)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="generator" content="{GENERATOR}">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{CONTENT}">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>\n{data('report.css').decode()}</style>\n</head>\n<body>\n{body}\n"
        f"<script>\n{data('report.js').decode()}</script>\n</body>\n</html>\n"
    )


def parts(material: Material, num_runs: int) -> Iterator[str]:
    sections = material.findings.sections
    unfinished = sum(not run.finished for each in sections for run in protocol.all_runs(each.cells))
    games, groups = (
        sum(map(len, each)) for each in zip(*((games_of(s.cells), s.cells) for s in sections), strict=True)
    )
    yield "<header>\n<h1>Scores of trained agents</h1>"
    counts = f"{plural(num_runs, 'run')} in {plural(groups, 'group')} on {plural(games, 'environment')}"
    yield f"<p>{counts}. A group is an agent with the same options; its runs differ by seed and environment.</p>"
    links = [(f"family-{section.family}", section.family) for section in material.findings.sections]
    links += [("runs", "all runs"), ("reading", "how to read this")]
    yield "<nav><ul>" + "".join(f'<li><a href="#{id}">{escape(text)}</a></li>' for id, text in links) + "</ul></nav>"
    yield "</header>\n<main>"
    yield from notes(material, unfinished)
    for section in material.findings.sections:
        yield from section_parts(section, material)
    yield from run_parts(material)
    yield from reading_parts(material)
    yield "</main>"


def notes(material: Material, unfinished: int) -> Iterator[str]:
    """What nobody should miss."""
    lines = []
    if material.findings.mixed:
        lines += [f"Protocols are mixed, as was asked for: {each}." for each in material.findings.mixed]
    if unfinished:
        lines.append(
            f"Unfinished: {plural(unfinished, 'run')}, in the curves as far as they go, in no table of scores."
        )
    if material.findings.skipped:
        lines.append(f"Skipped directories: {len(material.findings.skipped)}; the last table says which and why.")
    smallest = [min(len(found) for found in group.scores.values()) for group in own_groups(material) if group.scores]
    if smallest and min(smallest) < FEW_SEEDS:
        lines.append(
            f"Some games have {plural(min(smallest), 'seed')} only. From fewer than {FEW_SEEDS}, a 95 % interval holds "
            "the truth clearly less often than that (docs/report.md has how often); from one there is none."
        )
    if lines:
        items = "".join(f"<li>{escape(line)}</li>" for line in lines)
        yield f'<div class="note" role="note"><ul>{items}</ul></div>'


def own_groups(material: Material) -> Iterator[Any]:
    return (group for each in material.findings.sections for group in each.groups["last"] if not group.is_published)


def section_parts(section: Section, material: Material) -> Iterator[str]:
    yield f'<section id="family-{escape(section.family)}">\n<h2>{escape(section.family)}</h2>'
    yield protocol_box(section, material.findings.published)
    yield "<h3>Over games</h3>"
    reasons = list(left_out(section.groups["last"], common(section), section.scale))
    if section.aggregates:
        games = section.aggregates["last"].games
        yield f"<p>Normalised over {plural(len(games), 'game')}: {escape(section.scale.rule)}.</p>"
        if reasons:
            yield f'<p class="soft">Left out: {escape(" ".join(reasons))}</p>'
        yield aggregate_parts(section, material, "last")
        yield f"<details>\n<summary>The same of the {OF['best']}</summary>"
        yield aggregate_parts(section, material, "best") + "\n</details>"
    else:
        yield f"<p>No aggregates: there is no game that all groups have finished. {escape(' '.join(reasons))}</p>"
    yield "<h3>Per game</h3>" + game_table(section)
    yield "<h3>Learning curves</h3>\n" + curve_words(section, material.findings.published)
    curves = [material.pictures[name] for name in material.pictures if name.startswith(f"curve_{section.family}.")]
    yield '<div class="curves">' + "\n".join(map(show_picture, curves)) + "</div>\n</section>"


def common(section: Section) -> tuple[str, ...]:
    return section.aggregates["last"].games if section.aggregates else ()


def protocol_box(section: Section, published: Sequence[str]) -> str:
    rows = [
        *protocol.budgets(section.cells),
        *protocol.settings(section.cells),
        *protocol.provenance(section.cells),
    ]
    if section.family == "atari":
        rows.append(("table of random, human and published scores", TABLE))
        if "dopamine" in published:
            rows.append(("published curves", f"{SOURCE}; protocol: {PROTOCOL}"))
        if "paper" in published:
            rows.append(
                ("published scores", f"{TABLE}; one seed, 200 million frames; the paper's text averages 3 seeds")
            )
    listed = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in rows)
    labels = list(section.cells)
    head = "".join(f'<th scope="col">{escape(label)}</th>' for label in ("option", *labels))
    others = "".join(
        f'<tr><th scope="row"><code>{escape(name)}</code></th>'
        + "".join(f"<td>{escape(found[label])}</td>" for label in labels)
        + "</tr>"
        for name, found in protocol.options(section.cells)
    )
    options = f"<table><thead><tr>{head}</tr></thead><tbody>{others}</tbody></table>"
    return (
        '<div class="box">\n<h3>Protocol</h3>\n'
        f'<dl class="settings">{listed}</dl>'
        f"\n<details><summary>All other options of the agents</summary>{scroll('options', options)}</details>\n</div>"
    )


def aggregate_parts(section: Section, material: Material, kind: str) -> str:
    made = section.aggregates[kind]
    counts = {(row["group"], row["above"]): row for row in above_table([section]) if row["kind"] == kind}
    bars = list(dict.fromkeys(name for _, name in counts))
    heads = ["group", *(f"{name}, %" for name in NAMES.values()), *(f"games above {name}" for name in bars), "rests on"]
    rows = []
    for group in made.groups:
        cells: list[str | Cell] = [interval(made.estimates[group.label][name]) for name in NAMES]
        for bar in bars:
            row = counts[group.label, bar]
            cells.append(Cell(f"{row['games']} of {row['of']}", row["games"]))
        rows.append((group.is_published, [group.label, *cells, seed_words(group, made.games)]))
    caption = f"Of the {OF[kind]}, over {plural(len(made.games), 'game')}, with {100 * CONFIDENCE:g} % intervals."
    if section.family == "atari" and "paper" in material.findings.published and len(made.games) == 55:
        printed = table1()["fqf"]
        caption += f" The paper prints for FQF: mean {printed.mean_percent:g} %, median {printed.median_percent:g} %."
    table = sortable(f"aggregates of {section.family}, {kind}", caption, heads, rows, range(1, len(heads) - 1))
    names = [f"{section.family}_{kind}_{figure}" for figure in ("estimates", "profiles", "improvements")]
    pictures = [show_picture(material.pictures[name]) for name in names if name in material.pictures]
    return "\n".join([table, *pictures, improvement_table(section, made)])


def improvement_table(section: Section, made: Aggregates) -> str:
    if not made.improvements:
        return '<p class="soft">One group only: there is nobody to be better than.</p>'
    published = {group.label for group in made.groups if group.is_published}
    few = {group.label for group in made.groups if group.seeds(made.games)[0] < FEW_SEEDS}
    rows: list[tuple[bool, list[str | Cell]]] = [
        (False, [one, other, interval(estimate), decided(estimate, bool(few & {one, other}))])
        for (one, other), estimate in sorted(made.improvements.items(), key=lambda item: item[0][1] in published)
    ]
    caption = (
        f"Probability of improvement, of the {OF[made.kind]}: the chance that a run of the first scores more than one "
        "of the second on a game drawn at random; a tie is half a win."
    )
    heads = ["first", "second", "first is better, %", "interval excludes 50 %"]
    return sortable(f"improvements of {section.family}, {made.kind}", caption, heads, rows, [2])


def decided(estimate: Estimate, few: bool) -> str:
    """Two seeds against two can have an interval of no width at all."""
    if estimate.low is None or estimate.high is None:
        return "no interval"
    answer = "no" if estimate.low <= 0.5 <= estimate.high else "yes"
    return f"{answer}; few seeds, so a rough interval" if few else answer


def game_table(section: Section) -> str:
    rows = []
    for place, group in enumerate(section.groups["last"]):
        for env in sorted(group.scores):
            cells: list[str | Cell] = [Cell(str(len(group.scores[env])), len(group.scores[env]))]
            for kind in KINDS:
                scores = section.groups[kind][place].scores[env]
                span = f"{number(scores.min())} to {number(scores.max())}" if len(scores) > 1 else ""
                cells.append(Cell(number(scores.mean()), float(scores.mean()), span))
                scaled = 100 * section.scale.normalize(env, float(scores.mean())) if env in section.scale.ends else None
                cells.append(Cell(number(scaled), scaled))
            rows.append((group.is_published, [env, group.label, *cells]))
    rows.sort(key=lambda row: str(row[1][0]))
    unit = "% human" if section.family == "atari" else "% of span"
    heads = ["environment", "group", "seeds", "last score", f"last, {unit}", "best score", f"best, {unit}"]
    caption = f"Finished runs: mean over seeds, smallest to largest; {section.scale.rule}."
    if any(group.is_published for group in section.groups["last"]):
        caption += " The paper does not say whether its scores are last or best ones: they stand under both."
    return sortable(f"scores on {section.family}", caption, heads, rows, range(2, len(heads)))


def curve_words(section: Section, published: Sequence[str]) -> str:
    what = {
        "training" if run.config.get("score") == "training" else "frozen" for run in protocol.all_runs(section.cells)
    }
    names = {"training": "training episodes", "frozen": "evaluations of the frozen policy"}
    words = (
        f"Mean score of {' or '.join(names[each] for each in sorted(what))}; lines are means over seeds, bands their "
    )
    words += "range, crosses mark where unfinished runs stop."
    if section.family == "atari" and "dopamine" in published:
        words += " Dashed grey lines are Dopamine's published training curves, by the protocol in the box above."
    return f"<p>{escape(words)}</p>"


def run_parts(material: Material) -> Iterator[str]:
    yield '<section id="runs">\n<h2>All runs</h2>'
    rows: list[tuple[bool, list[str | Cell]]] = []
    for section in material.findings.sections:
        for label, games in section.cells.items():
            for env, runs in games.items():
                for run in runs:
                    share = 100 * run.curve.steps[-1] / run.config["steps"]
                    state = "finished" if run.finished else f"unfinished, {share:.0f} % of its steps"
                    seed = run.config["seed"]
                    hours = Cell("" if run.seconds is None else protocol.duration(run.seconds), run.seconds)
                    rows.append((False, [posix(run.path), state, label, env, Cell(str(seed), seed), hours]))
    for each in material.findings.skipped:
        rows.append((False, [posix(each.path), f"skipped: {each.why}", "", "", Cell("", None), Cell("", None)]))
    heads = ["directory", "state", "group", "environment", "seed", "wall-clock"]
    yield sortable("runs", "Every directory that was named or found.", heads, rows, (4, 5)) + "\n</section>"


def reading_parts(material: Material) -> Iterator[str]:
    terms = {
        "mean, median": "over games, of each game's mean over seeds.",
        "IQM": "interquartile mean: the mean of the middle half of all runs of all games.",
        "optimality gap": "by how much runs miss 100 % on average; scores above 100 % make up for nothing.",
        "performance profile": "the share of runs that score more than a threshold, every game weighing the same.",
        "intervals": f"{100 * CONFIDENCE:g} % percentile intervals of a stratified bootstrap: the runs of every game "
        f"drawn again with replacement, {material.findings.resamples:,} times, seed {material.findings.seed}. They "
        "speak about other seeds of the same games, not about other games.",
        "last and best": "the last score of a run, and the largest of all. The best of many noisy scores is too high: "
        "more so the more there are.",
    }
    listed = "".join(f"<dt>{escape(term)}</dt><dd>{escape(words)}</dd>" for term, words in terms.items())
    yield f'<section id="reading">\n<h2>How to read this</h2>\n<dl>{listed}</dl>'
    yield "<p>Definitions are those of Agarwal et al. 2021, Deep RL at the Edge of the Statistical Precipice.</p>"
    files = ", ".join(f"<code>{escape(name)}</code>" for name in material.files)
    yield f'<p class="soft">Beside this page: every figure as PNG and SVG, and the numbers: {files}.</p>\n</section>'
