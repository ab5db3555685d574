"""The paper's figures and tables. Each artefact is a module with `Options` and `make(options)`, which writes a picture
(PNG and SVG) and the data behind it (CSV), and returns one line that says what they were computed from."""

from collections.abc import Callable
from typing import Any, NamedTuple

from fqf.paper import curves, fractions, n_sweep, projection, scores, table1, toy


class Artefact(NamedTuple):
    options: Any
    make: Callable[[Any], str]
    more: tuple[str, ...] = ()
    """Files beside NAME.png, NAME.svg and NAME.csv."""


ARTEFACTS: dict[str, Artefact] = {
    "projection": Artefact(projection.Options, projection.make),
    "curves": Artefact(curves.Options, curves.make),
    "table1": Artefact(table1.Options, table1.make),
    "toy": Artefact(toy.Options, toy.make, ("toy_w1.csv",)),
    "n-sweep": Artefact(n_sweep.Options, n_sweep.make),
    "fractions": Artefact(fractions.Options, fractions.make, (*fractions.EPISODE[1:], "fractions_states.csv")),
    "scores": Artefact(scores.Options, scores.make),
}
"""In the paper's order; `fqf paper all` makes all of them."""
