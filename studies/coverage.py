"""How often a report's intervals hold the truth: games with known laws, runs drawn from them, intervals counted.

    .venv/bin/python studies/coverage.py

The statistics' true values are those of 200,000 runs per game. Scores are gamma-distributed, so that games are skewed,
with means from 0.2 to 2 and a spread of 40 %. Then the same for differences between the means of kinds of runs on one
game, as the study of agents has them: of two kinds, and of two such differences.
"""

import numpy as np
from study_scores import welch

from fqf.report import statistics

TRIALS, RESAMPLES, SHAPE = 1_000, 500, 1 / 0.4**2


def draw(generator: np.random.Generator, means: np.ndarray, runs: int) -> list[np.ndarray]:
    return [mean * generator.gamma(SHAPE, 1 / SHAPE, runs) for mean in means]


def main() -> None:
    print("| games | runs per game | " + " | ".join(statistics.STATISTICS) + " |")
    print("|---|---|" + "---|" * len(statistics.STATISTICS))
    for games in (1, 3, 5, 55):
        generator = np.random.default_rng(games)
        means = np.linspace(0.2, 2, games) if games > 1 else np.array([0.7])
        population = draw(generator, means, 200_000)
        truth = {name: float(statistic(population)) for name, statistic in statistics.STATISTICS.items()}
        for runs in (2, 3, 5, 10, 20):
            covered = dict.fromkeys(truth, 0)
            for trial in range(TRIALS):
                drawn = statistics.resample(draw(generator, means, runs), trial, RESAMPLES)
                for name, statistic in statistics.STATISTICS.items():
                    low, high = statistics.percentiles(statistic(drawn))
                    covered[name] += low <= truth[name] <= high
            shares = " | ".join(f"{100 * number / TRIALS:.0f} %" for number in covered.values())
            print(f"| {games} | {runs} | {shares} |", flush=True)
    print()
    differences()


def differences() -> None:
    print("| means of one game | runs per kind | bootstrap | Welch |")
    print("|---|---|---|---|")
    for name, signs in (("one minus another", (1, -1)), ("a difference minus another", (1, 1, -1, -1))):

        def statistic(scores: statistics.Scores, signs: tuple[int, ...] = signs) -> np.ndarray:
            return sum(sign * kind.mean(axis=-1) for sign, kind in zip(signs, scores, strict=True))

        generator, means = np.random.default_rng(0), np.linspace(0.6, 0.9, len(signs))
        truth = float(np.dot(signs, means))
        for runs in (2, 3, 5, 10):
            covered = np.zeros(2)
            for trial in range(TRIALS):
                kinds = draw(generator, means, runs)
                low, high = statistics.percentiles(statistic(statistics.resample(kinds, trial, RESAMPLES)))
                _, least, most = welch(kinds, signs)
                covered += low <= truth <= high, least <= truth <= most
            shares = " | ".join(f"{100 * number / TRIALS:.0f} %" for number in covered)
            print(f"| {name} | {runs} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
