"""The peers' side of the benchmark: torch's product, Tianshou's learners and loops, SB3-Contrib's QR-DQN.

`CASES[name](**arguments)` sets a case up and returns `run(count) -> seconds` for `count` units of its work: a product,
an update, or an environment step. It imports torch, so it lives in a virtual environment of its own.
"""

import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, partial
from importlib import metadata
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Discrete
from tianshou.algorithm import C51, DQN, FQF, IQN, QRDQN
from tianshou.algorithm.algorithm_base import OffPolicyAlgorithm
from tianshou.algorithm.modelfree.c51 import C51Policy
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.fqf import FQFPolicy
from tianshou.algorithm.modelfree.iqn import IQNPolicy
from tianshou.algorithm.modelfree.qrdqn import QRDQNPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory, RMSpropOptimizerFactory
from tianshou.data import Batch, Collector, ReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.env.atari.atari_network import C51Net, DQNet, QRDQNet, ScaledObsInputActionReprNet
from tianshou.utils.net.common import ModuleWithVectorOutput, Net
from tianshou.utils.net.discrete import FractionProposalNetwork, FullQuantileFunction, ImplicitQuantileNetwork
from tianshou.utils.torch_utils import policy_within_training_step
from torch import nn

Run = Callable[[int], float]

SEED = 0
BATCH_SIZE = 32
STEPS_PER_UPDATE = 4
EXPLORATION_EPSILON = 0.1
ATARI_ACTIONS = 6
ATARI_SCREEN = {"c": 4, "h": 84, "w": 84}
ATARI_REPLAY = {"stack_num": 4, "ignore_obs_next": True, "save_only_last_obs": True}  # as in Tianshou's Atari examples
LEARNING = {"gamma": 0.99, "n_step_return_horizon": 1, "target_update_freq": 10_000}  # target updates are not measured


def versions() -> dict[str, str]:
    names = ("torch", "tianshou", "sb3_contrib", "minatar", "ale_py", "gymnasium")
    return {name: metadata.version(name) for name in names}


def sgemm() -> Run:
    seed_all()
    left, right = torch.randn(2048, 3136), torch.randn(3136, 512)
    return timed(lambda: torch.mm(left, right))


def update(agent: str, num_fractions: int) -> Run:
    """One update of a batch of 32 at Atari's size; C51 and DQN have no fractions and ignore their number."""
    seed_all()
    algorithm, buffer = make_atari_learner(agent, num_fractions), random_atari_buffer(10_000)
    return timed(lambda: algorithm.update(buffer=buffer, sample_size=BATCH_SIZE), algorithm)


def cartpole(num_fractions: int = 32) -> Run:
    seed_all()
    torso = Net(state_shape=4, hidden_sizes=[64])
    algorithm = make_fqf(torso, 2, num_fractions, hidden_size=64)
    environment = gymnasium.make("CartPole-v1")
    return timed_loop(algorithm, environment, ReplayBuffer(20_000), random_steps=1_000)


def cartpole_qrdqn(num_quantiles: int = 32) -> Run:
    from sb3_contrib import QRDQN as ContribQRDQN

    model = ContribQRDQN(
        "MlpPolicy",
        "CartPole-v1",
        batch_size=BATCH_SIZE,
        buffer_size=20_000,
        learning_starts=1_000,
        train_freq=STEPS_PER_UPDATE,
        gradient_steps=1,
        exploration_initial_eps=EXPLORATION_EPSILON,
        exploration_final_eps=EXPLORATION_EPSILON,
        policy_kwargs={"net_arch": [64, 64], "n_quantiles": num_quantiles},
        seed=SEED,
    )
    model.learn(1_000)  # the random steps, which make no update

    def run(count: int) -> float:
        check_count(count)
        start = time.perf_counter()
        model.learn(count, reset_num_timesteps=False)
        return time.perf_counter() - start

    return run


def minatar(num_fractions: int) -> Run:
    from minatar.gym import register_envs

    seed_all()
    register_envs()
    environment = gymnasium.make("MinAtar/Breakout-v1")
    height, width, channels = environment.observation_space.shape
    torso = MinAtarTorso(height, width, channels)
    algorithm = make_fqf(torso, environment.action_space.n, num_fractions, hidden_size=128)
    return timed_loop(algorithm, environment, ReplayBuffer(100_000), random_steps=1_000)


def pong(num_fractions: int) -> Run:
    import ale_py
    from tianshou.env.atari import atari_wrapper

    seed_all()
    gymnasium.register_envs(ale_py)
    # Tianshou 2.0.1 declares its spaces as np.integer, which numpy 2.4 refuses. The frames are uint8 either way.
    atari_wrapper.get_space_dtype = lambda space: space.dtype
    environment = atari_wrapper.wrap_deepmind(gymnasium.make("PongNoFrameskip-v4"), frame_stack=4, scale=False)
    algorithm = make_atari_learner("fqf", num_fractions)
    return timed_loop(algorithm, environment, ReplayBuffer(20_000, **ATARI_REPLAY), random_steps=200)


CASES: dict[str, Callable[..., Run]] = {
    "sgemm": sgemm,
    "update": update,
    "cartpole": cartpole,
    "cartpole_qrdqn": cartpole_qrdqn,
    "minatar": minatar,
    "pong": pong,
}


class MinAtarTorso(ModuleWithVectorOutput):
    """One convolution of 16 filters, 3x3. MinAtar's observations have their channels last, torch wants them first."""

    def __init__(self, height: int, width: int, channels: int) -> None:
        super().__init__(16 * (height - 2) * (width - 2))
        self.net = nn.Sequential(nn.Conv2d(channels, 16, kernel_size=3), nn.ReLU(), nn.Flatten())

    def forward(self, observation: np.ndarray, state: Any = None, info: Any = None) -> tuple[torch.Tensor, Any]:
        return self.net(torch.as_tensor(observation, dtype=torch.float32).permute(0, 3, 1, 2)), state


def make_fqf(torso: ModuleWithVectorOutput, num_actions: int, num_fractions: int, hidden_size: int) -> FQF:
    policy = FQFPolicy(
        model=FullQuantileFunction(preprocess_net=torso, action_shape=num_actions, hidden_sizes=[hidden_size]),
        fraction_model=FractionProposalNetwork(num_fractions, torso.get_output_dim()),
        action_space=Discrete(num_actions),
        eps_training=EXPLORATION_EPSILON,
    )
    fraction_optim = RMSpropOptimizerFactory(lr=2.5e-9)  # the rate and the optimiser of Tianshou's Atari example
    return FQF(policy=policy, optim=adam(), fraction_optim=fraction_optim, num_fractions=num_fractions, **LEARNING)


def make_iqn(torso: ModuleWithVectorOutput, num_actions: int, num_fractions: int, hidden_size: int) -> IQN:
    policy = IQNPolicy(
        model=ImplicitQuantileNetwork(preprocess_net=torso, action_shape=num_actions, hidden_sizes=[hidden_size]),
        action_space=Discrete(num_actions),
        sample_size=num_fractions,
        online_sample_size=num_fractions,
        target_sample_size=num_fractions,
    )
    return IQN(policy=policy, optim=adam(), num_quantiles=num_fractions, **LEARNING)


def make_atari_learner(agent: str, num_fractions: int) -> OffPolicyAlgorithm:
    """Tianshou's learner on DQN's three convolutions (3136 features) and a hidden layer of 512."""
    actions = Discrete(ATARI_ACTIONS)
    scaled = ScaledObsInputActionReprNet
    features = partial(DQNet, **ATARI_SCREEN, action_shape=ATARI_ACTIONS, features_only=True)
    if agent == "fqf":
        return make_fqf(scaled(features()), ATARI_ACTIONS, num_fractions, hidden_size=512)
    if agent == "iqn":
        return make_iqn(scaled(features()), ATARI_ACTIONS, num_fractions, hidden_size=512)
    if agent == "qr_dqn":
        net = scaled(QRDQNet(**ATARI_SCREEN, action_shape=ATARI_ACTIONS, num_quantiles=num_fractions))
        policy = QRDQNPolicy(model=net, action_space=actions)
        return QRDQN(policy=policy, optim=adam(), num_quantiles=num_fractions, **LEARNING)
    if agent == "c51":
        net = scaled(C51Net(**ATARI_SCREEN, action_shape=[ATARI_ACTIONS], num_atoms=51))
        return C51(policy=C51Policy(model=net, action_space=actions, num_atoms=51), optim=adam(), **LEARNING)
    if agent == "dqn":
        net = scaled(DQNet(**ATARI_SCREEN, action_shape=ATARI_ACTIONS))
        policy = DiscreteQLearningPolicy(model=net, action_space=actions)
        return DQN(policy=policy, optim=adam(), is_double=False, **LEARNING)
    raise ValueError(f"no agent {agent!r}; there are fqf, iqn, qr_dqn, c51 and dqn")


def adam() -> AdamOptimizerFactory:
    return AdamOptimizerFactory(lr=5e-5)


@cache
def random_atari_buffer(size: int) -> ReplayBuffer:
    """A full buffer of noise, in episodes of 200 steps on average."""
    generator = np.random.default_rng(SEED)
    buffer = ReplayBuffer(size, **ATARI_REPLAY, random_seed=SEED)
    for _ in range(size):
        terminated = generator.random() < 1 / 200
        transition = Batch(
            # The buffer keeps the last frame of a stack only, so that a stack of one fills it as well as one of four.
            obs=generator.integers(256, size=(1, 84, 84), dtype=np.uint8),
            act=generator.integers(ATARI_ACTIONS),
            rew=float(generator.integers(-1, 2)),
            terminated=terminated,
            truncated=False,
            done=terminated,
            info={},
        )
        buffer.add(transition)
    return buffer


def seed_all() -> None:
    torch.manual_seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002 - Tianshou explores with numpy's global generator


def timed(work: Callable[[], object], algorithm: OffPolicyAlgorithm | None = None) -> Run:
    """Time `count` calls of `work`; an algorithm's are made as its trainer makes them, within a training step."""

    def run(count: int) -> float:
        with policy_within_training_step(algorithm.policy) if algorithm else nullcontext():
            start = time.perf_counter()
            for _ in range(count):
                work()
            return time.perf_counter() - start

    return run


def timed_loop(algorithm: FQF, environment: gymnasium.Env, buffer: ReplayBuffer, random_steps: int) -> Run:
    """Time environment steps with one update per four. Tianshou's trainer does the same and more: it also looks for
    NaNs in a copy of the whole buffer after every collection, which is left out here in its favour."""
    environment.action_space.seed(SEED)
    collector = Collector(algorithm, DummyVectorEnv([lambda: environment]), buffer, exploration_noise=True)
    collector.reset(gym_reset_kwargs={"seed": SEED})
    collector.collect(n_step=random_steps, random=True)

    def collect_and_update() -> None:
        collector.collect(n_step=STEPS_PER_UPDATE)
        algorithm.update(buffer=buffer, sample_size=BATCH_SIZE)

    time_updates = timed(collect_and_update, algorithm)

    def run(count: int) -> float:
        check_count(count)
        return time_updates(count // STEPS_PER_UPDATE)

    return run


def check_count(count: int) -> None:
    if count % STEPS_PER_UPDATE:
        raise ValueError(f"{count} steps are no whole number of updates, each of which follows {STEPS_PER_UPDATE}")
