"""What the progress bar shows on a narrow terminal."""

import io

import pytest
from rich.console import Console

from fqf.progress import Progress

ROW = {"step": 40_000, "return": 123.4, "quantile_loss": 0.01234, "fraction_loss": -1.5, "q": 3.0}


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_sees_everything(width):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=width)
    with Progress("fqf on classic/mountain_car", 100_000, quiet=False, console=console) as progress:
        progress.advance(40_000, ROW)
    text = screen.getvalue()
    for words in ("fqf on classic/mountain_car: 100,000 steps", "40%", "steps/s", "ETA", "return 123.4"):
        assert words in text
    assert "quantile loss 0.01234  fraction loss -1.5" in text
    assert "━" * 10 in text


def test_a_log_file_sees_plain_lines(monkeypatch):
    monkeypatch.setattr("fqf.progress.SECONDS_BETWEEN_LINES", 0.0)
    log = io.StringIO()
    with Progress("fqf on toy/uniform", 1_000, quiet=False, console=Console(file=log, width=40)) as progress:
        progress.advance(250, ROW)
    lines = log.getvalue().splitlines()
    assert lines[0] == "fqf on toy/uniform: 1,000 steps"
    assert lines[1].startswith(" 25 %")
    assert lines[1].endswith("fraction loss -1.5")
    assert "\x1b" not in log.getvalue()
