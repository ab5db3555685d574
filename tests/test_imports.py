"""Imports point one way. The layers are those of ARCHITECTURE.md, lowest first."""

import ast
import subprocess
import sys
from pathlib import Path

import fqf

ROOT = Path(fqf.__file__).parent
LAYERS = [
    {"types", "errors", "follower"},
    {"files", "logs", "signals"},
    {"resources", "losses", "networks", "replay", "environments", "laws", "exploration"},
    {"config"},
    {"schedule"},
    {"agents"},
    {"presets", "learner"},
    {"cycle"},
    {"drivers"},
    {"evaluation", "snapshots"},
    {"formats"},
    {"policy", "rundir", "progress", "report", "checkpoint"},
    {"parts", "protocols", "record", "tracking"},
    {"results", "ledger", "trained"},
    {"session"},
    {"train"},
    {"options", "paper"},
    {"suite"},
    {"commands"},
    {"", "cli"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "" if parts == ("__init__",) else parts[0]


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fqf":
            inner = node.module.split(".")[1:]
            yield from ([inner[0]] if inner else [alias.name for alias in node.names])
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("fqf."))


def test_imports_point_down():
    wrong = []
    for path in ROOT.rglob("*.py"):
        importer = module_name(path)
        for name in imported(path):
            if name != importer and LEVEL[name] >= LEVEL[importer]:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert wrong == []


def test_report_imports_no_agent():
    names = {name for path in (ROOT / "report").glob("*.py") for name in imported(path)}
    assert names <= {"report", "laws", "types", "errors", "files"}


def test_what_is_heavy_comes_in_when_it_is_needed():
    """A second or two of every start, and 120 MB beside a replay that leaves 500."""
    code = "import sys, fqf.cli; print(*({'gymnax', 'pandas', 'scipy', 'matplotlib', 'PIL'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.split() == []


def test_nothing_can_execute_what_it_loads():
    for path in ROOT.rglob("*.py"):
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        assert not names & {"pickle", "eval", "exec", "joblib", "cloudpickle"}, path
