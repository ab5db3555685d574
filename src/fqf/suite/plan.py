"""A grid as data: agents x environments x seeds, and variants of their options. A pure function makes runs of it."""

import dataclasses
import importlib.resources
import itertools
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from fqf import environments
from fqf.agents import AGENTS
from fqf.config import read_toml
from fqf.errors import UserError, nearest

MANAGED = ("agent", "env", "seed", "seeds", "seeds_together", "steps", "runs", "config", "overwrite", "quiet", "resume")
"""Options of `fqf train` that a plan sets by itself."""


@dataclass(frozen=True)
class Resources:
    """What one run asks of the machine it runs on."""

    cpus: int = 1
    """Cores; the run is held to them, so that runs do not get into each other's way."""
    memory_gb: float = 1.0
    """Memory, of which no machine gives away more than it has."""
    gpus: float = 0.0
    """GPUs; half a one is 0.5."""


@dataclass(frozen=True)
class Plan:
    """One grid of runs."""

    name: str
    agents: tuple[str, ...]
    envs: tuple[str, ...]
    seeds: tuple[int, ...]
    steps: int
    """Agent steps of every run."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of `fqf train`; a table under the name of an agent or an environment is for its runs only."""
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options by the name of a variant; each variant is a grid of its own, in RUNS/<variant>."""
    resources: Resources = Resources()
    retries: int = 2
    """How often a run that failed is started again, from its last checkpoint."""


@dataclass(frozen=True)
class SuiteRun:
    """One run of a grid."""

    agent: str
    env: str
    seed: int
    steps: int
    variant: str = ""
    options: tuple[tuple[str, Any], ...] = ()
    """Options of `fqf train`, by name."""

    @property
    def id(self) -> str:
        """Where the run is, below RUNS."""
        return "/".join(
            part for part in (self.variant, self.agent, self.env.replace("/", "."), f"seed{self.seed}") if part
        )


def expand(plan: Plan) -> tuple[SuiteRun, ...]:
    """All runs, seed by seed: the first seed of everything comes before the second of anything."""
    variants = plan.variants or {"": {}}
    return tuple(
        SuiteRun(agent, env, seed, plan.steps, variant, _options((plan.options, variants[variant]), agent, env))
        for seed, variant, env, agent in itertools.product(plan.seeds, variants, plan.envs, plan.agents)
    )


def _options(layers: Iterable[Mapping[str, Any]], agent: str, env: str) -> tuple[tuple[str, Any], ...]:
    """For all, then for the agent, then for the environment; the variant's after the plan's."""
    chosen: dict[str, Any] = {}
    for layer in layers:
        chosen |= {name: value for name, value in layer.items() if not isinstance(value, Mapping)}
        chosen |= {**layer.get(agent, {}), **layer.get(env, {})}
    return tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in chosen.items())


# Reading

KEYS = (
    "agents",
    "envs",
    "seeds",
    "steps",
    "options",
    "variants",
    "retries",
    *(item.name for item in dataclasses.fields(Resources)),
)


def ready_made() -> dict[str, str]:
    """The text of every plan that comes with the package."""
    files = importlib.resources.files("fqf").joinpath("suite/plans").iterdir()
    return {file.name.removesuffix(".toml"): file.read_text() for file in sorted(files, key=lambda each: each.name)}


def find_plan(name: str) -> tuple[str, dict[str, Any]]:
    """A plan that comes with the package, or a TOML file: its name, and what it says."""
    if name in (known := ready_made()):
        return name, tomllib.loads(known[name])
    if not name.endswith(".toml") and not Path(name).exists():
        raise UserError(f"unknown plan {name!r}; {nearest(name, known)} (or name a file, such as plan.toml)")
    return Path(name).stem, read_toml(Path(name))


def make_plan(name: str, said: Mapping[str, Any], source: str) -> Plan:
    """Check what a file and flags say, as far as that is possible without asking what the options mean."""
    for key in said:
        if key not in KEYS:
            raise UserError(f"unknown key {key!r} in {source}; {nearest(key, KEYS)}")
    for key in ("agents", "envs", "seeds"):
        if not said.get(key) and said.get(key) != 0:
            raise UserError(f"{source} has no {key}: the plan is empty")
    if "steps" not in said:
        raise UserError(f"{source} does not say for how many steps: add steps, such as steps = 1_000_000")
    plan = Plan(
        name=name,
        agents=_texts(said["agents"], "agents"),
        envs=_texts(said["envs"], "envs"),
        seeds=_seeds(said["seeds"]),
        steps=_count(said["steps"], "steps", 1),
        options=_table(said.get("options", {}), "options"),
        variants={
            variant: _table(options, f"variants.{variant}")
            for variant, options in _table(said.get("variants", {}), "variants").items()
        },
        resources=Resources(
            _count(said.get("cpus", 1), "cpus", 1),
            _amount(said.get("memory_gb", 1.0), "memory_gb"),
            _amount(said.get("gpus", 0.0), "gpus"),
        ),
        retries=_count(said.get("retries", 2), "retries", 0),
    )
    _check_names(plan, source)
    return plan


def _check_names(plan: Plan, source: str) -> None:
    for agent in plan.agents:
        if agent not in AGENTS:
            raise UserError(f"unknown agent {agent!r} in {source}; {nearest(agent, AGENTS)}")
    for env in plan.envs:
        environments.refuse_unknown(env)
    for variant in plan.variants:
        if not re.fullmatch(r"[A-Za-z0-9][\w.=-]*", variant) or variant in (*AGENTS, "suite"):
            raise UserError(f"variant {variant!r} in {source} can't name a directory beside those of agents: rename it")
    for where, layer in {
        "options": plan.options,
        **{f"variants.{name}": x for name, x in plan.variants.items()},
    }.items():
        for key, table in _tables(layer):
            if key not in (*AGENTS, *plan.envs) and not environments.is_known(key):
                names = nearest(key, (*plan.agents, *plan.envs))
                raise UserError(f"{where}.{key} in {source} is for no agent or environment of the plan; {names}")
            if deeper := next(_tables(table), None):
                raise UserError(f"{where}.{key}.{deeper[0]} in {source} is a table too deep")
        for key in [name for _, table in [("", layer), *_tables(layer)] for name in table]:
            if key in MANAGED:
                raise UserError(f"{where} in {source} sets {key}, which the plan or the command line does")


def _tables(layer: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return ((key, value) for key, value in layer.items() if isinstance(value, Mapping))


def _texts(said: Any, key: str) -> tuple[str, ...]:
    if isinstance(said, str):
        said = [part.strip() for part in said.split(",")]
    if not isinstance(said, list) or not all(isinstance(each, str) for each in said):
        raise UserError(f"{key} is {said!r}, but must be a list of names")
    return _unique(said, key)


def _seeds(said: Any) -> tuple[int, ...]:
    """A number of seeds, from 0 on, or a list of them."""
    if isinstance(said, list):
        return _unique([_count(each, "a seed", 0) for each in said], "seeds")
    return tuple(range(_count(said, "seeds", 1)))


def _unique(said: list[Any], key: str) -> tuple[Any, ...]:
    twice = [each for index, each in enumerate(said) if each in said[:index]]
    if twice:
        raise UserError(f"{key} names {twice[0]!r} twice")
    return tuple(said)


def _count(said: Any, key: str, least: int) -> int:
    if type(said) is not int or said < least:
        raise UserError(f"{key} is {said!r}, but must be a whole number, at least {least}")
    return said


def _amount(said: Any, key: str) -> float:
    if type(said) not in (int, float) or not 0 <= said < float("inf"):
        raise UserError(f"{key} is {said!r}, but must be a number, 0 or more")
    return float(said)


def _table(said: Any, key: str) -> dict[str, Any]:
    if not isinstance(said, Mapping):
        raise UserError(f"{key} is {said!r}, but must be a table")
    return dict(said)


def to_toml(plan: Plan) -> str:
    """As a file would say it."""
    said = dataclasses.asdict(plan) | dataclasses.asdict(plan.resources)
    return tomli_w.dumps({key: list(said[key]) if isinstance(said[key], tuple) else said[key] for key in KEYS})
