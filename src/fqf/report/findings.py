"""What there is to report: runs read, protocols compared, scores summed up. Nothing is written here."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fqf.errors import UserError, nearest
from fqf.report.analysis import Section, make_section
from fqf.report.groups import Difference, differences, group, refuse_mixed
from fqf.report.records import Skipped
from fqf.report.runs import load
from fqf.report.statistics import RESAMPLES

PUBLISHED = ("dopamine", "paper")


class Findings(NamedTuple):
    sections: list[Section]
    """One per family of environments."""
    skipped: list[Skipped]
    mixed: list[Difference]
    """Protocols that differ, where that was asked for."""
    published: Sequence[str]
    """What is drawn in."""
    seed: int
    resamples: int


def examine(
    paths: Sequence[Path],
    published: Sequence[str] = (),
    mixed: bool = False,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Findings:
    for name in published:
        if name not in PUBLISHED:
            raise UserError(f"--with {name!r} is not known; {nearest(name, PUBLISHED)}")
    runs, skipped = load(paths)
    if not runs:
        listed = "; ".join(f"{each.path}: {each.why}" for each in skipped[:3])
        more = f"; and {len(skipped) - 3} more" if len(skipped) > 3 else ""
        raise UserError(f"there is no run to report on ({listed}{more})")
    found = differences(runs)
    if not mixed:
        refuse_mixed(found)
    families = group(runs, found)
    if published and "atari" not in families:
        raise UserError(f"--with {','.join(published)}: what was published is of Atari games, and none is among these")
    sections = [make_section(name, cells, "paper" in published, seed, resamples) for name, cells in families.items()]
    return Findings(sections, skipped, found, published, seed, resamples)
