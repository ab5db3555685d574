"""`fqf report | paper`: pages, figures and tables."""

import dataclasses
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.progress import track

from fqf.errors import UserError, nearest
from fqf.options import PaperOptions, ReportOptions, parse


def report(arguments: list[str]) -> None:
    from fqf.report.findings import examine  # late, as in train.py
    from fqf.report.write import Drawing, refuse_stranger, write_report

    options = parse(ReportOptions, "fqf report", arguments, ["runs", "out", "with", "mixed", "seed", "resamples"])
    for name, least in (("seed", 0), ("resamples", 100)):
        if getattr(options, name) < least:
            raise UserError(f"{name} is {getattr(options, name)}, but must be at least {least}")
    if not options.runs:
        raise UserError("name at least one run directory, or a directory that holds some, such as runs")

    console = Console(stderr=True)

    def watch(drawings: Iterable[Drawing], total: int) -> Iterable[Drawing]:
        return track(drawings, "drawing", total=total, console=console, transient=True, disable=not console.is_terminal)

    published = [name for name in options.with_.split(",") if name]
    refuse_stranger(options.out)
    with console.status("reading runs, resampling scores ..."):
        findings = examine(options.runs, published, options.mixed, options.seed, options.resamples)
    for each in findings.skipped:
        print(f"fqf: skipped {each.path}: {each.why}", file=sys.stderr)
    written = write_report(findings, options.out, watch)
    unfinished = f", {written.unfinished} of them unfinished" if written.unfinished else ""
    print(f"{written.runs} runs{unfinished}; look at {written.page}")


def paper(arguments: list[str]) -> None:
    from fqf.paper import ARTEFACTS  # late, as in train.py
    from fqf.paper.runs import NoRuns

    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: fqf paper ARTEFACT [options]\n\nartefacts (fqf paper ARTEFACT --help lists their options):")
        for name, artefact in ARTEFACTS.items():
            print(f"  {name:<12}{' '.join(artefact.options.__doc__.split())}")
        print("  all         all of them, with their defaults; takes --out DIR")
        return
    chosen = list(ARTEFACTS) if arguments[0] == "all" else arguments[:1]
    if chosen[0] not in ARTEFACTS:
        raise UserError(f"unknown artefact {chosen[0]!r}; {nearest(chosen[0], (*ARTEFACTS, 'all'))}")
    kind = PaperOptions if arguments[0] == "all" else ARTEFACTS[chosen[0]].options
    names = [item.name for item in dataclasses.fields(kind)]
    options = parse(kind, f"fqf paper {arguments[0]}", arguments[1:], names)
    if options.out.exists() and not options.out.is_dir():
        raise UserError(f"--out is {options.out}, which is a file: name a directory to write into")
    if "--runs" in arguments and not options.runs:
        raise UserError("--runs has nothing after it: name runs, directories of them, or files of collected scores")
    if arguments[0] != "all":
        print_artefact(chosen[0], options)
        return
    unusable = []
    for name in chosen:
        try:
            print_artefact(name, ARTEFACTS[name].options(out=options.out))
        except UserError as error:
            print(f"fqf: left out {name}: {error}", file=sys.stderr)
            unusable += [] if isinstance(error, NoRuns) else [name]
    if unusable:
        raise UserError(f"the others are made, but {' and '.join(unusable)} could not be: see above")


def print_artefact(name: str, options: Any) -> None:
    from fqf.paper import ARTEFACTS  # late, as in train.py

    _, make, more = ARTEFACTS[name]
    source = make(options)
    print(f"{options.out / name}{', '.join(('.png', '.svg', '.csv', *more))}: {source}")
