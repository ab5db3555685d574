"""Pieces of HTML: tables that can be sorted, and pictures that are part of the page."""

import base64
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from fqf.report.statistics import Estimate


class Picture(NamedTuple):
    svg: bytes
    alt: str
    caption: str


class Cell(NamedTuple):
    """A number, as it is shown and as it is sorted by."""

    text: str
    value: float | None
    detail: str = ""


def plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def interval(estimate: Estimate) -> Cell:
    value, low, high = (None if each is None else 100 * each for each in estimate)
    assert value is not None
    return Cell(
        number(value), value, f"{number(low)} to {number(high)}" if low is not None and high is not None else ""
    )


def number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}" if abs(value) >= 100 else f"{value:.3g}"


def scroll(name: str, table: str) -> str:
    """A wide table moves within its place; the keyboard reaches it too."""
    return f'<div class="scroll" role="region" aria-label="{escape(name)}" tabindex="0">{table}</div>'


def sortable(
    name: str,
    caption: str,
    heads: Sequence[str],
    rows: Iterable[tuple[bool, Sequence[str | Cell]]],
    numeric: Iterable[int],
) -> str:
    right = set(numeric)
    head = "".join(
        f'<th scope="col"{" class=number" if place in right else ""}>{escape(text)}</th>'
        for place, text in enumerate(heads)
    )
    body = "\n".join(
        f"<tr{' class=published' if is_published else ''}>{''.join(map(show_cell, cells, range(len(cells))))}</tr>"
        for is_published, cells in rows
    )
    table = f"<caption>{escape(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>"
    return scroll(name, f'<table class="sortable">{table}</table>')


def show_cell(cell: str | Cell, place: int) -> str:
    if isinstance(cell, str):
        return f'<th scope="row">{escape(cell)}</th>' if place == 0 else f"<td>{escape(cell)}</td>"
    detail = f' <span class="range">{escape(cell.detail)}</span>' if cell.detail else ""
    value = "" if cell.value is None else f"{cell.value:.10g}"
    return f'<td class="number" data-value="{value}">{escape(cell.text)}{detail}</td>'


def show_picture(picture: Picture) -> str:
    source = base64.b64encode(picture.svg).decode()
    caption = f"<figcaption>{escape(picture.caption)}</figcaption>" if picture.caption else ""
    image = f'<img src="data:image/svg+xml;base64,{source}" alt="{escape(picture.alt)}">'
    return f"<figure>{image}{caption}</figure>"
