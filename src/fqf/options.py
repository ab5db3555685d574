"""What can be said on the command line: one record per command, read by tyro, with errors of one line."""

import argparse
import contextlib
import io
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import tyro

from fqf import environments
from fqf.agents import AGENTS, check_names
from fqf.config import RunConfig, flatten, override, read_toml
from fqf.environments.atari import AtariConfig
from fqf.environments.gymnasium import GymnasiumConfig
from fqf.errors import UserError, nearest
from fqf.presets import preset
from fqf.train import Launch

AgentConfig = TypeVar("AgentConfig")
EnvironmentConfig = TypeVar("EnvironmentConfig")


@dataclass(frozen=True)
class TrainOptions(Generic[AgentConfig, EnvironmentConfig]):
    """Train an agent. Defaults depend on --agent and --env: what is shown is the preset of those chosen here."""

    run: RunConfig[AgentConfig, EnvironmentConfig]
    launch: Launch = field(default_factory=Launch)
    config: Path | None = None
    """TOML file of options, named as the flags are, with _ for -; flags override it."""
    resume: bool = False
    """Go on with the run if it is there, and do nothing if it is finished: the same command again, for job queues."""


@dataclass(frozen=True)
class ResumeOptions:
    """Go on with unfinished runs, each from its last whole checkpoint, to the same bytes as if never stopped."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories, such as runs/fqf/classic.cartpole/seed0."""
    quiet: bool = False
    """No progress bar."""


@dataclass(frozen=True)
class EvaluateOptions:
    """Play a trained policy, frozen, and report its scores."""

    run: tyro.conf.Positional[Path]
    """Run directory, such as runs/fqf/classic.cartpole/seed0."""
    episodes: int | None = None
    """Episodes to play; if not given, as the run itself was evaluated (on Atari a number of steps)."""
    epsilon: float | None = None
    """Share of random actions; the run's own evaluation epsilon if not given."""
    seed: int = 1
    """Of the evaluation, apart from the run's."""


@dataclass(frozen=True)
class RecordOptions:
    """Play one episode of a trained policy into a moving GIF, with the return distribution of each action beside it."""

    run: tyro.conf.Positional[Path]
    """Run directory, such as runs/fqf/atari.pong/seed0."""
    out: Path | None = None
    """File to write; RUN/episode.gif if not given."""
    max_steps: int = 1_000
    """Steps after which the recording stops, if the episode has not ended."""
    epsilon: float | None = None
    """Share of random actions; the run's own evaluation epsilon if not given."""
    seed: int = 1
    """Of the episode."""


@dataclass(frozen=True)
class ScoresOptions:
    """Last and best scores of finished Atari runs, human-normalised, per game and in aggregate."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories."""


@dataclass(frozen=True)
class ReportOptions:
    """A page with figures and tables of finished and unfinished runs: docs/report.md says what each number means."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories, directories that hold them at any depth, or CSV files of collected scores."""
    out: Path = Path("report")
    """Directory to write: index.html, figures/, tables/. An older report there is replaced."""
    with_: Annotated[str, tyro.conf.arg(name="with")] = ""
    """Published results to draw in, on Atari: dopamine (its curves), paper (FQF's table), or dopamine,paper."""
    mixed: bool = False
    """Set runs of different protocols side by side, each as a group of its own; they are refused otherwise."""
    seed: int = 0
    """Of the bootstrap: same runs and seed, same bytes."""
    resamples: int = 2_000
    """Of the bootstrap."""


@dataclass(frozen=True)
class PaperOptions:
    """All of the paper's figures and tables, with their defaults."""

    out: Path = Path("paper")
    """Directory to write into."""


def read_train_options(arguments: list[str], prog: str = "fqf train") -> TrainOptions[Any, Any]:
    """Preset of the agent and environment, then the config file, then the flags."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in ("--agent", "--env", "--protocol", "--config"):
        first.add_argument(name, nargs="?")
    chosen, _ = first.parse_known_args(arguments)
    from_file = read_toml(Path(chosen.config)) if chosen.config else {}
    agent = chosen.agent or from_file.get("agent", "fqf")
    env = chosen.env or from_file.get("env", "classic/cartpole")
    protocol = chosen.protocol or from_file.get("protocol")
    defaults = TrainOptions(preset(str(agent), str(env), protocol))
    names = [name for name in flatten(defaults) if name not in ("config", "resume")]
    check_names(from_file, names, str(chosen.config))
    defaults = override(defaults, from_file | {"agent": agent, "env": env})
    # The types of the agent's and the environment's own options are known only now; with them all become flags.
    kind: Any = TrainOptions[type(defaults.run.algorithm), type(defaults.run.environment)]  # type: ignore[misc]
    options: TrainOptions[Any, Any] = parse(kind, prog, arguments, [*names, "config", "resume"], defaults)
    refuse_without_effect(options.run, arguments)
    return options


def refuse_without_effect(config: RunConfig[Any, Any], arguments: list[str]) -> None:
    """Flags only: a config file of a finished run holds every option, of use or not."""
    given, host = (
        {argument.split("=")[0] for argument in arguments},
        environments.family(config.env) in ("atari", "gym"),
    )
    if "--evaluation-episodes" in given and config.evaluation_steps and host:
        steps = config.evaluation_steps
        raise UserError(f"--evaluation-episodes has no effect beside --evaluation-steps {steps}: set that to 0")
    if "--evaluation-steps" in given and not host:
        raise UserError(f"--evaluation-steps has no effect on {config.env}: use --evaluation-episodes")
    for flag in given & {"--priority-exponent", "--priority-epsilon", "--importance-exponent"}:
        if config.replay == "uniform":
            owners = [agent for agent, entry in AGENTS.items() if entry.settings.get("replay") == "prioritized"]
            advice = f"add --replay prioritized, or choose one of {', '.join(owners)}"
            raise UserError(f"{flag} has no effect on uniform replay: {advice}")


def parse(kind: Any, prog: str, arguments: list[str], names: list[str], defaults: Any = None) -> Any:
    """tyro, with its error boxes folded into one line."""
    for argument in arguments:
        name = re.sub("^no-", "", argument.removeprefix("--").split("=")[0])
        if argument.startswith("--") and name.replace("-", "_") not in (*names, "help"):
            owners = [agent for agent, entry in AGENTS.items() if name.replace("-", "_") in flatten(entry.config)]
            if owners and prog in ("fqf train", "fqf fractions"):
                raise UserError(f"--{name} is not an option of this agent; it is one of {', '.join(owners)}")
            for kind, only in (("atari", AtariConfig()), ("gym", GymnasiumConfig())):
                if name.replace("-", "_") in flatten(only) and prog in ("fqf train", "fqf fractions"):
                    raise UserError(f"--{name} is an option of {kind}/ environments only")
            flags = ["--" + valid.replace("_", "-") for valid in names]
            raise UserError(f"unknown option {argument.split('=')[0]}; {nearest('--' + name, flags)}")
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            return tyro.cli(kind, prog=prog, args=arguments, default=defaults, config=(tyro.conf.OmitArgPrefixes,))
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        # A box of lines, drawn in Unicode or in ASCII: its title, a rule, the message, a rule, where to find help.
        text = " ".join(re.sub(r"[╭╮╰╯│|+]", " ", errors.getvalue().partition("\n")[2]).split())
        message = next((part.strip() for part in re.split("[─-]{5,}", text) if part.strip()), "bad options")
        raise UserError(f"{in_our_words(message)} (see {prog} --help)") from None


def in_our_words(message: str) -> str:
    """What tyro and Python say of a value, as we do."""
    if choice := re.match(r"invalid choice '(.*)' for argument '(.*)'. Expected one of (.*)\.", message):
        valid = re.findall("'(.*?)'", choice[3])
        return f"{choice[2]} is {choice[1]!r}; {nearest(choice[1], valid)}"
    for pattern, rule in (
        (r"Error parsing (\S+): invalid literal for int\(\) with base 10: (.*)", "a whole number"),
        (r"Error parsing (\S+): could not convert string to float: (.*)", "a number"),
        (r"Error parsing (\S+): no type matching .*INT could be .* from \[(.*?)\]", "a whole number"),
        (r"Error parsing (\S+): no type matching .*FLOAT could be .* from \[(.*?)\]", "a number"),
        (r"Error parsing (\S+): Could not find valid parse for arguments: \[(.*)\]", "whole numbers"),
    ):
        if value := re.match(pattern, message):
            return f"{value[1]} is {value[2]}, but must be {rule}"
    if lacking := re.match(r"Missing value for argument '(\S+)'", message):
        return f"{lacking[1]} has no value"
    return message
