"""What a run is: one frozen record, read from presets, TOML files and the command line, and written back whole.

Names are flat: every field of every part is one key of a TOML file and one flag, whichever part it belongs to.
"""

import dataclasses
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin

import tomli_w

from fqf.errors import UserError, nearest
from fqf.networks.torsos import NetworkConfig

AgentConfig = TypeVar("AgentConfig")
EnvironmentConfig = TypeVar("EnvironmentConfig")


@dataclass(frozen=True)
class RunConfig(Generic[AgentConfig, EnvironmentConfig]):
    """All that determines a run's results. Each line names the paper's value, or Dopamine's where the paper is silent;
    the default shown is the preset's for --env."""

    algorithm: AgentConfig
    environment: EnvironmentConfig
    network: NetworkConfig = field(default_factory=NetworkConfig)

    agent: str = "fqf"
    """Which agent to train."""
    env: str = "classic/cartpole"
    """Environment id, such as classic/cartpole, minatar/breakout, atari/pong, gym/LunarLander-v3 or toy/exponential."""
    seed: int = 0
    """Everything random in a run follows from it."""
    steps: int = 50_000_000
    """Agent steps over all lanes, resets included; the paper: 50 million, 200 million frames (FQF section 4)."""
    lanes: int = 1
    """Copies of the environment that play side by side."""

    discount: float = 0.99
    """Gamma; the paper: 0.99 (FQF, hyper-parameter sheet)."""
    batch_size: int = 32
    """Transitions per update; the paper: 32 (FQF, hyper-parameter sheet)."""
    n_step: int = 1
    """Steps of reward before the bootstrap; the paper: 1 (FQF section 3.3)."""
    frame_stack: int = 1
    """Frames that make one observation; 4 on Atari (Mnih et al. 2015)."""
    clip_rewards: bool = False
    """Learn from rewards clipped to [-1, 1]; so on Atari (Mnih et al. 2015). Scores are always of raw rewards."""
    double: bool = False
    """Let the online network choose the target's action and the target network value it (van Hasselt et al. 2016);
    the paper: no."""
    replay_capacity: int = 1_000_000
    """Rows of experience kept, over all lanes; 1 million on Atari (Mnih et al. 2015; Dopamine)."""
    replay: Literal["uniform", "prioritized"] = "uniform"
    """How transitions are drawn: all alike (the paper), or in proportion to their last error (Schaul et al. 2016)."""
    priority_exponent: float = 0.5
    """Prioritized: priorities are errors to this power; 0.6 (Schaul et al. 2016), 0.5 (Rainbow, table 1)."""
    priority_epsilon: float = 1e-6
    """Prioritized: added to every error, so that none is never drawn again (Schaul et al. 2016, section 3.3)."""
    importance_exponent: float = 0.4
    """Prioritized: how far importance weights correct at the start; it rises to 1 by the end (Schaul et al. 2016)."""
    update_period_steps: int = 4
    """Agent steps per update; 4 on Atari (Mnih et al. 2015; Dopamine)."""
    target_period_steps: int = 8_000
    """Agent steps between two copies of the online to the target network; 8,000 on Atari (Dopamine's IQN)."""
    learning_starts_steps: int = 20_000
    """Agent steps of random play before the first update; 20,000 on Atari (Dopamine's IQN)."""

    learning_rate: float = 5e-5
    """Adam's rate for torso, embedding and head; the paper: 5e-5 (FQF, hyper-parameter sheet)."""
    final_rate_share: float = 1.0
    """Share of their start to which all learning rates fall along a half cosine; the paper: 1, they do not."""
    adam_epsilon: float = 0.01 / 32
    """Adam's epsilon; 0.01 / 32 on Atari (QR-DQN; Dopamine's IQN)."""

    exploration_epsilon: float = 0.01
    """Share of random actions after the decay; the paper: 0.01 (FQF section 4)."""
    exploration_decay_steps: int = 250_000
    """Agent steps over which epsilon falls from 1, once learning has started; 250,000 on Atari (Dopamine)."""

    evaluation_epsilon: float = 0.001
    """Share of random actions in evaluation; the paper: 0.001 (FQF section 4)."""
    evaluation_episodes: int = 100
    """Episodes per evaluation; their number is fixed beforehand, so that short ones are not counted more often."""
    evaluation_steps: int = 0
    """Agent steps per evaluation in place of a number of episodes, if not 0; 125,000 on Atari (the authors' code).
    Each lane plays its share, and ends the episode that exceeds it, which counts."""
    evaluation_lanes: int = 8
    """Atari and Gymnasium: lanes that share an evaluation. (Compiled environments play every episode on its own.)"""
    evaluate_every_steps: int = 250_000
    """Agent steps between two evaluations of the frozen policy; 250,000 on Atari (Dopamine)."""
    log_every_steps: int = 10_000
    """Agent steps per line of metrics."""


def periods(update_period_steps: int, lanes: int) -> tuple[int, int]:
    """Vector steps and updates of one period: any number of lanes keeps the ratio of updates to agent steps."""
    common = math.gcd(update_period_steps, lanes)
    return update_period_steps // common, lanes // common


def warm_up_steps(config: RunConfig[Any, Any]) -> int:
    """Agent steps before learning, rounded up to whole steps of all lanes."""
    return -(-config.learning_starts_steps // config.lanes) * config.lanes


def num_periods(config: RunConfig[Any, Any]) -> int:
    """Periods of play and learning that fit between the warm-up and the end of the run."""
    vector_steps = periods(config.update_period_steps, config.lanes)[0]
    return (config.steps - warm_up_steps(config)) // (vector_steps * config.lanes)


def num_updates(config: RunConfig[Any, Any]) -> int:
    return num_periods(config) * periods(config.update_period_steps, config.lanes)[1]


def flatten(config: Any) -> dict[str, Any]:
    """Every option by its flat name: the run's own first, then those of its parts."""
    values = {item.name: getattr(config, item.name) for item in dataclasses.fields(config)}
    parts = [value for value in values.values() if dataclasses.is_dataclass(value)]
    flat = {name: value for name, value in values.items() if not dataclasses.is_dataclass(value)}
    for part in parts:
        flat |= flatten(part)
    return flat


def override(config: Any, options: Mapping[str, Any]) -> Any:
    """A copy with some options replaced, whichever part they live in; names of other parts are passed over."""
    changes = {}
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if dataclasses.is_dataclass(value):
            changes[item.name] = override(value, options)
        elif item.name in options:
            changes[item.name] = _like(item, options[item.name])
    return dataclasses.replace(config, **changes)


def _like(option: dataclasses.Field[Any], value: Any) -> Any:
    """Read a value from TOML or Python as the option's declared type."""
    kind: Any = option.type
    choices = get_args(kind)
    if get_origin(kind) is Literal:
        if value not in choices:
            raise UserError(f"{option.name} is {value!r}; {nearest(str(value), choices)}")
        return value
    if get_origin(kind) is tuple:
        if isinstance(value, list | tuple) and all(type(element) is int for element in value):
            return tuple(value)
        raise UserError(f"{option.name} is {value!r}, but must be a list of whole numbers")
    if kind is float and type(value) is int:
        return float(value)
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    if type(value) is kind:
        return value
    words = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", Path: "a path"}
    raise UserError(f"{option.name} is {value!r}, but must be {words[kind]}")


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise UserError(f"can't read config file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"config file {path} is not valid TOML: {error}") from None


def to_toml(config: Any) -> str:
    """The whole config: every option by its flat name."""
    return tomli_w.dumps(flatten(config))


def check(config: RunConfig[Any, Any]) -> None:
    """Refuse what can't work, in one line that says what would."""
    options = flatten(config)

    def require(name: str, holds: bool, rule: str) -> None:
        if not holds:
            raise UserError(f"{name} is {options[name]!r}, but must be {rule}")

    for name, value in options.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{name} is {value!r}, but must be finite")
    counts = ["steps", "lanes", "batch_size", "n_step", "frame_stack", "replay_capacity", "update_period_steps"]
    counts += ["target_period_steps", "evaluation_episodes", "evaluate_every_steps", "log_every_steps", "hidden"]
    counts += ["evaluation_lanes", "frame_skip", "episode_cap_frames", "episode_cap_steps"]
    counts += ["num_fractions", "num_cosines", "num_quantiles", "num_target_quantiles", "num_action_quantiles"]
    for name in counts:
        require(name, options.get(name, 1) >= 1, "at least 1")
    for name in ("seed", "learning_starts_steps", "exploration_decay_steps", "learning_rate"):
        require(name, options[name] >= 0, "0 or more")
    optional = ("fraction_learning_rate", "entropy_coefficient", "noisy_sigma", "noop_max", "score_window_episodes")
    for name in (*optional, "evaluation_steps"):
        require(name, options.get(name, 0) >= 0, "0 or more")
    for name in ("adam_epsilon", "fraction_epsilon", "huber_kappa", "priority_epsilon", "max_gradient_norm"):
        require(name, options.get(name, 1) > 0, "greater than 0")
    for name in (
        "discount",
        "exploration_epsilon",
        "evaluation_epsilon",
        "fraction_decay",
        "final_rate_share",
        "importance_exponent",
        "priority_exponent",
        "sticky_probability",
    ):
        require(name, 0 <= options.get(name, 0) <= 1, "between 0 and 1")
    require("seed", config.seed < 2**31, "below 2**31")
    require("num_atoms", options.get("num_atoms", 2) >= 2, "at least 2")
    require("v_max", options.get("v_max", 1) > options.get("v_min", 0), f"more than v_min ({options.get('v_min')})")
    require("torso_layers", all(size >= 1 for size in config.network.torso_layers), "sizes of at least 1")
    require("torso_layers", len(config.network.torso_layers) >= 1, "at least one layer")

    lanes = config.lanes
    rows, shortest = config.replay_capacity // lanes, config.n_step + config.frame_stack + 1
    require(
        "batch_size", config.batch_size <= config.replay_capacity, f"at most replay_capacity ({config.replay_capacity})"
    )
    require("replay_capacity", rows >= shortest, f"at least {shortest * lanes}, to hold one transition per lane")
    least = max(shortest * lanes, config.batch_size)
    require("learning_starts_steps", config.learning_starts_steps >= least, f"at least {least}, to fill one batch")
    one_period = warm_up_steps(config) + math.lcm(config.update_period_steps, lanes)
    require("steps", config.steps >= one_period, f"at least {one_period}, for one update after learning_starts_steps")
