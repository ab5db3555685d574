"""The few records that every part of the project passes around."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

PyTree = Any
Key = Array


class Timestep(NamedTuple):
    """What an environment says on arrival at an observation; leading axis E where several lanes speak at once.

    rows of one lane:  o0  o1  o2* | o0  o1 ...     (* last; the row after it is the first of a new episode)
    """

    observation: Shaped[Array, "..."]
    reward: Float[Array, "*E"]
    """Raw reward earned on the way here; 0 on the first row of an episode."""
    discount: Float[Array, "*E"]
    """0 where the return ends here (termination), 1 otherwise, also on truncation."""
    last: Bool[Array, "*E"]
    """The episode ends here, by termination or by truncation."""


class EnvironmentSpec(NamedTuple):
    """What an agent must know of an environment before it sees one."""

    id: str
    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype
    num_actions: int


class JittableEnvironment(NamedTuple):
    """One lane of an environment that runs inside a compiled program, without automatic resets.

    Every episode must end: evaluation plays to the last one's end. If yours goes on for ever, truncate it (`last`
    without discount 0).
    """

    spec: EnvironmentSpec
    reset: Callable[[Key], tuple[PyTree, Array]]
    """key -> state, first observation"""
    step: Callable[[Key, PyTree, Array], tuple[PyTree, Timestep]]
    """key, state, action -> state, timestep"""


class Environment(NamedTuple):
    """A batched environment as two pure functions; after `last`, `step` ignores its action and starts an episode."""

    spec: EnvironmentSpec
    num_lanes: int
    init: Callable[[Key], tuple[PyTree, Timestep]]
    step: Callable[[PyTree, Int[Array, "E"]], tuple[PyTree, Timestep]]


@runtime_checkable
class HostLanes(Protocol):
    """Lanes that play outside compiled programs, with NumPy arrays; the same contract as `Environment`."""

    episodes: list["FinishedEpisode"]
    """Those that have ended since somebody emptied the list."""

    def init(self, seed: int) -> Timestep: ...

    def step(self, action: np.ndarray) -> Timestep: ...

    def render(self) -> np.ndarray | None:
        """A picture of the first lane, [H, W, 3] bytes, if there is one."""

    def memento(self) -> dict[str, Any]:
        """All that is needed to stand here again: plain numbers and lists, fit for JSON."""

    def restore(self, memento: dict[str, Any]) -> np.ndarray:
        """Stand where a memento was made, in lanes just made; the observations there."""

    def close(self) -> None: ...


class FinishedEpisode(NamedTuple):
    total: float
    """Sum of its raw rewards."""
    length: int


class HostEnvironment(NamedTuple):
    """An environment that steps outside compiled programs: an emulator, or anything written in Python."""

    spec: EnvironmentSpec
    make: Callable[[int, bool], HostLanes]
    """Lanes of it, with a state of their own; whether the first can be rendered."""
    frame_skip: int = 1
    """Emulator frames per step."""


class Transition(NamedTuple):
    """A batch of n-step transitions, as the losses see them."""

    observation: Shaped[Array, "B ..."]
    action: Int[Array, "B"]
    reward: Float[Array, "B"]
    """Discounted sum of the rewards between the two observations."""
    discount: Float[Array, "B"]
    """Weight of the next observation's value: gamma to the number of steps, 0 after a termination."""
    next_observation: Shaped[Array, "B ..."]


class LossOutput(NamedTuple):
    """What an agent's loss returns. The learner averages `loss` over the batch, with importance weights."""

    loss: Float[Array, "B"]
    priorities: Float[Array, "B"]
    metrics: dict[str, Float[Array, ""]]


class ReturnDistribution(NamedTuple):
    """The return of each action in one state as atoms: the same type for every agent."""

    probabilities: Float[Array, "A N"]
    values: Float[Array, "A N"]


class LearnerState(NamedTuple):
    params: PyTree
    target_params: PyTree
    optimizer_state: PyTree


class Actor(NamedTuple):
    """What plays: where each lane stands, and what it will do there."""

    timestep: Timestep
    stack: Shaped[Array, "E ..."]
    """The observation as the network sees it: the newest frame, or a stack of the last few."""
    action: Int[Array, "E"]
    """Chosen for `timestep`, not yet taken."""


class RunState(NamedTuple):
    """Everything that one seed's run is, except its step counter, which all seeds share."""

    learner: LearnerState
    replay: PyTree
    environment: PyTree
    actor: Actor
    key: Key


class Snapshot(NamedTuple):
    """One seed's run at a moment, but for its rows of experience: small, and written whole."""

    learner: LearnerState
    memory: PyTree
    """The replay without its rows: priorities, if there are any."""
    environment: PyTree
    """Nothing where lanes play on the host: they have a memento."""
    actor: Actor
    key: Key
