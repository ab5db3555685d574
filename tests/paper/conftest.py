"""Runs are written as those of reports are, and collected by the study that does it."""

import runpy
from pathlib import Path

import pytest
from report.conftest import write_run

__all__ = ["write_run"]


@pytest.fixture(scope="session")
def collect():
    return runpy.run_path(str(Path(__file__).parents[2] / "studies" / "collect.py"))["collect"]
