"""The appendix's demonstration: what each agent learns of one known law, and how far it is from it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from fqf.config import override
from fqf.environments.toy import GAMMA, TOYS, TRUNCATION_STEPS
from fqf.errors import UserError
from fqf.laws import LAWS, QuantileFunction, compare
from fqf.paper.style import LEARNED, TRUTH, draw, write_csv
from fqf.policy import Policy, read_config
from fqf.presets import preset
from fqf.rundir import is_finished, is_run, run_path
from fqf.train import Launch, launch, resume
from fqf.trained import load

ENV = "toy/exponential"
(LAW,) = LAWS[ENV]


@dataclass(frozen=True)
class Options:
    """The appendix's figure: C51, QR-DQN, IQN, FQF as printed and fqf_consistent, trained on Exponential(1)."""

    out: Path = Path("paper")
    """Directory to write into; runs are kept in OUT/toy_runs and not repeated."""
    num_fractions: int = 8
    """Atoms, quantiles or fractions of every agent."""
    returns: int = 10_000
    """Sampled returns in the Monte-Carlo estimate of the law."""
    seed: int = 0
    """Of the runs and of the sampled returns."""
    retrain: bool = False
    """Train anew, also where OUT/toy_runs has the run."""


def agents(count: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """Each with `count` atoms or fractions; C51 between 0 and 8, as the law has no largest return."""
    iqn = {"num_quantiles": count, "num_target_quantiles": count, "num_action_quantiles": count}
    return {
        "C51": ("c51", {"num_atoms": count, "v_min": 0.0, "v_max": 8.0}),
        "QR-DQN": ("qr_dqn", {"num_quantiles": count}),
        "IQN": ("iqn", iqn),
        "FQF as printed": ("fqf", {"num_fractions": count}),
        "fqf_consistent": ("fqf_consistent", {"num_fractions": count}),
    }


def staircase(policy: Policy) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and values of the one action in the one state."""
    distribution = policy.distribution(np.ones(1))
    return np.asarray(distribution.probabilities[0], np.float64), np.asarray(distribution.values[0], np.float64)


def trained(agent: str, settings: dict[str, Any], options: Options) -> Policy:
    """The policy of a run that is there, of one that was stopped and goes on, or of a new one."""
    config = override(preset(agent, ENV), {**settings, "seed": options.seed})
    path = run_path(runs_of(options), config)
    if options.retrain or not is_run(path):
        return launch(config, Launch(runs=runs_of(options), overwrite=options.retrain))[0].policy
    if read_config(path / "config.toml") != config:
        raise UserError(f"{path} holds a run with other options: choose another --out, or replace it with --retrain")
    return load(path) if is_finished(path) else resume([path])[0].policy


def runs_of(options: Options) -> Path:
    """A place of their own, where nobody else's runs are, by the number of fractions."""
    return options.out / "toy_runs" / f"n{options.num_fractions}"


def sampled_returns(count: int, seed: int) -> np.ndarray:
    """Discounted sums of rewards that the environment gives, of whole episodes: what they leave out is 2^-100."""

    def episode(key: jax.Array) -> jax.Array:
        keys = jax.random.split(key, TRUNCATION_STEPS)
        rewards = jax.vmap(TOYS["exponential"].reward, (0, None))(keys, jnp.zeros((), jnp.int32))
        return rewards @ GAMMA ** np.arange(TRUNCATION_STEPS, dtype=np.float32)

    return np.asarray(jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(seed), count)), np.float64)


def w1_to_samples(probabilities: np.ndarray, values: np.ndarray, samples: np.ndarray) -> float:
    """To the empirical distribution, as in the paper."""
    return float(stats.wasserstein_distance(values, samples, probabilities))


def make(options: Options) -> str:
    for name in ("num_fractions", "returns"):
        if getattr(options, name) < 2:
            raise UserError(f"{name} is {getattr(options, name)}, but must be at least 2")
    found = {
        name: staircase(trained(agent, settings, options))
        for name, (agent, settings) in agents(options.num_fractions).items()
    }
    samples = sampled_returns(options.returns, options.seed)
    draw_toy(found, samples, options.out)
    noise = w1_to_law(LAW.quantile, samples)
    return (
        f"runs on {ENV} in {runs_of(options)}, N = {options.num_fractions}, seed {options.seed}, the toy preset; "
        f"W1 to the exact law, and to {options.returns:,} sampled returns, which are {noise:.4f} from it themselves"
    )


def w1_to_law(quantile: QuantileFunction, samples: np.ndarray) -> float:
    """Of equally likely samples, by the midpoint rule: each against the quantile in the middle of its step."""
    return float(np.mean(np.abs(np.sort(samples) - quantile((np.arange(len(samples)) + 0.5) / len(samples)))))


def draw_toy(found: dict[str, tuple[np.ndarray, np.ndarray]], samples: np.ndarray, out: Path) -> None:
    """toy.csv has every staircase, toy_w1.csv what is measured of them."""
    measured = {name: (compare(LAW.quantile, *each), w1_to_samples(*each, samples)) for name, each in found.items()}
    columns = ("agent", "w1_exact", "w1_monte_carlo", "mean", "w1_of_its_fractions")
    rows = [
        (name, numbers.w1, sampled, numbers.mean, numbers.fractions) for name, (numbers, sampled) in measured.items()
    ]
    write_csv(out / "toy_w1.csv", columns, rows)
    steps = [
        (name, index, float(probability), float(value))
        for name, each in found.items()
        for index, (probability, value) in enumerate(zip(*each, strict=True))
    ]
    write_csv(out / "toy.csv", ("agent", "step", "probability", "value"), steps)

    def paint(figure: Figure) -> None:
        axes = figure.subplots(3, 2, sharex=True, sharey=True).flat
        for axis, (name, each) in zip(axes, found.items(), strict=False):
            draw_staircase(axis, *each)
            numbers, sampled = measured[name]
            axis.set_title(f"{name}\n$W_1$ {numbers.w1:.3f} (sampled {sampled:.3f})")
            axis.xaxis.set_tick_params(labelbottom=True)
        axes[5].legend(*axes[0].get_legend_handles_labels(), frameon=False, loc="center")
        axes[5].set_axis_off()
        figure.supxlabel(r"fraction $\tau$", fontsize=7)
        figure.supylabel("return", fontsize=7)

    draw(4.6, paint, out, "toy")


def draw_staircase(axis: Axes, probabilities: np.ndarray, values: np.ndarray) -> None:
    """Of the distribution, so in the order of values: crossing quantiles are the same atoms in another order."""
    grid = np.linspace(0, 0.998, 1_000)
    axis.plot(grid, LAW.quantile(grid), color=TRUTH, linewidth=1, linestyle="--", label=LAW.name)
    order = np.argsort(values, kind="stable")
    taus = np.concatenate([[0.0], np.cumsum(probabilities[order])[:-1], [1.0]])
    axis.stairs(values[order], taus, baseline=None, color=LEARNED, linewidth=1.3, label="learned staircase")
    axis.plot(taus, 0 * taus, "|", color="black", markersize=5, transform=axis.get_xaxis_transform(), label="its edges")
    axis.set_xlim(0, 1)
    axis.set_xticks([0, 0.5, 1])
    axis.set_ylim(bottom=0)
