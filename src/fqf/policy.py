"""A trained policy: parameters and what is needed to use them, without the environment they were trained on."""

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy
from flax.traverse_util import flatten_dict, unflatten_dict

from fqf import environments
from fqf.agents import check_names, make_agent, observation_shape, whole_config
from fqf.agents.agent import mean
from fqf.config import RunConfig, check, flatten, override, read_toml, to_toml
from fqf.errors import UserError
from fqf.files import write_whole
from fqf.formats import HEADER_BYTES, NONSENSE
from fqf.types import EnvironmentSpec, PyTree, ReturnDistribution

FORMAT = "fqf-policy-1"
TYPES = {"float32": "F32"}
"""As safetensors calls them."""


@dataclass(frozen=True)
class Policy:
    """`act` and `distribution` take one observation, or several along a leading axis."""

    config: RunConfig[Any, Any]
    spec: EnvironmentSpec
    params: PyTree

    def act(self, observation: Any) -> Any:
        """The action with the highest expected return; an int for one observation."""
        batch, single = self._batch(observation)
        actions = np.asarray(jnp.argmax(mean(self._distribution(self.params, batch)), axis=1))
        return int(actions[0]) if single else actions

    def distribution(self, observation: Any) -> ReturnDistribution:
        """The return of every action: probabilities and values, [A, N]."""
        batch, single = self._batch(observation)
        distribution = jax.tree.map(np.asarray, self._distribution(self.params, batch))
        return jax.tree.map(lambda leaf: leaf[0], distribution) if single else distribution

    @functools.cached_property
    def _distribution(self) -> Any:
        return jax.jit(make_agent(self.config, self.spec).distribution)

    def _batch(self, observation: Any) -> tuple[np.ndarray, bool]:
        shape, array = observation_shape(self.config, self.spec), np.asarray(observation)
        if array.shape == shape:
            return array[None], True
        if array.shape[1:] == shape:
            return array, False
        raise UserError(f"an observation of shape {array.shape} was given; {self.spec.id} has {shape}")

    def save(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        tensors = {name: np.asarray(leaf) for name, leaf in flatten_dict(self.params, sep="/").items()}
        spec = self.spec._asdict() | {"observation_dtype": str(self.spec.observation_dtype)}
        metadata = {"fqf": json.dumps({"format": FORMAT, "spec": spec})}  # one key: their order in the file is random
        write_whole(directory / "config.toml", to_toml(self.config).encode())
        write_whole(directory / "params.safetensors", safetensors.numpy.save(tensors, metadata))


def load_policy(directory: Path) -> Policy:
    """Read a policy that `save` wrote. Every tensor's name, shape and type must be what the config asks for."""
    path = directory / "params.safetensors"
    config = read_config(directory / "config.toml")
    try:
        with path.open("rb") as start:
            if int.from_bytes(start.read(8), "little") > HEADER_BYTES:
                raise ValueError("its header is too large")
        with safetensors.safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get("fqf", "{}"))
            if header.get("format") != FORMAT:
                raise UserError(f"{path} has format {header.get('format')!r}; this version reads {FORMAT!r}")
            spec = _read_spec(header["spec"])
            shapes = flatten_dict(jax.eval_shape(make_agent(config, spec).init, jax.random.key(0)), sep="/")
            if set(file.keys()) != set(shapes):
                raise UserError(f"{path} does not hold the parameters that its config.toml describes")
            for name, expected in shapes.items():
                found = file.get_slice(name)
                if (found.get_dtype(), tuple(found.get_shape())) != (TYPES[expected.dtype.name], expected.shape):
                    raise UserError(f"{path}: {name} does not have the shape and type that its config.toml describes")
            params = unflatten_dict({name: jnp.asarray(file.get_tensor(name)) for name in shapes}, sep="/")
    except OSError as error:
        raise UserError(f"can't read policy {path}: {error.strerror or error}") from None
    except (safetensors.SafetensorError, *NONSENSE) as error:
        raise UserError(f"can't read policy {path}: {error or type(error).__name__}") from None
    return Policy(config, spec, params)


def read_config(path: Path) -> RunConfig[Any, Any]:
    """A whole config, as a run or a policy has it."""
    options = read_toml(path)
    config = whole_config(str(options.get("agent")), environments.options(str(options.get("env"))))
    check_names(options, flatten(config), str(path))
    config = override(config, options)
    check(config)
    return config


def _read_spec(spec: dict[str, Any]) -> EnvironmentSpec:
    shape = tuple(int(size) for size in spec["observation_shape"])
    return EnvironmentSpec(str(spec["id"]), shape, np.dtype(spec["observation_dtype"]), int(spec["num_actions"]))
