"""The command line. A user's mistake ends in one line on standard error and exit code 2."""

import sys
from collections.abc import Callable, Sequence

from fqf.agents import AGENTS
from fqf.commands.playing import evaluate, list_environments, record, scores
from fqf.commands.reporting import paper, report
from fqf.commands.training import fractions, resume, train
from fqf.errors import Diverged, Incomplete, Interrupted, UserError, nearest

HELP = f"""\
usage: fqf COMMAND [options]

Fully Parameterized Quantile Function (FQF) for distributional reinforcement learning.

commands:
  train       train an agent:             fqf train --agent fqf --env classic/cartpole --seed 0
  resume      go on with a run that was stopped or killed:
                                          fqf resume runs/fqf/classic.cartpole/seed0
  evaluate    score a trained policy:     fqf evaluate runs/fqf/classic.cartpole/seed0
  record      watch it, as a moving GIF:  fqf record runs/fqf/classic.cartpole/seed0
  scores      Atari runs beside the published scores, human-normalised:
                                          fqf scores runs/fqf/atari.*/seed0
  report      a page with figures and statistics, from many runs:
                                          fqf report runs --out report
  environments
              list all of them
  fractions   compare FQF's fractions (proposed, frozen, uniform, random), everything else equal:
                                          fqf fractions --env minatar/breakout --seeds 3
  suite       a grid of agents, environments and seeds, here or on a cluster:
                                          fqf suite smoke
  paper       the paper's figures and tables: fqf paper all

agents:       {", ".join(AGENTS)}
environments: classic/cartpole, minatar/breakout, atari/pong, gym/LunarLander-v3, toy/exponential and more:
              fqf environments

`fqf COMMAND --help` lists every option of a command with its default.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    commands: dict[str, Callable[[list[str]], None]] = {
        "train": train,
        "resume": resume,
        "evaluate": evaluate,
        "record": record,
        "scores": scores,
        "report": report,
        "environments": list_environments,
        "fractions": fractions,
        "suite": suite,
        "paper": paper,
    }
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    try:
        if arguments[0] not in commands:
            raise UserError(f"unknown command {arguments[0]!r}; {nearest(arguments[0], commands)}")
        commands[arguments[0]](arguments[1:])
    except UserError as error:
        print(f"fqf: {' '.join(str(error).split())}", file=sys.stderr)  # an environment's own words may be many lines
        return 2
    except Incomplete as error:
        print(f"fqf: {error}", file=sys.stderr)
        return 1
    except Diverged as error:
        print(f"fqf: {error}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"fqf: {error.strerror}: {error.filename}", file=sys.stderr)
        return 2
    except Interrupted as stop:
        print(f"fqf: {stop}", file=sys.stderr)
        return 128 + stop.signal
    except KeyboardInterrupt:
        print("fqf: interrupted", file=sys.stderr)
        return 130
    return 0


def suite(arguments: list[str]) -> None:
    from fqf.suite.command import suite as run_suite  # late, as in train.py

    run_suite(arguments)


if __name__ == "__main__":
    sys.exit(main())
