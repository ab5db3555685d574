"""From features to the values of all actions, and how such values are put together."""

import flax.linen as nn
import jax
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from fqf.networks.layers import Dense

HIDDEN = "hidden"
"""The name of the hidden layer, for what is kept for gradients."""


class ValueHead(nn.Module):
    """One hidden layer, then one output per action. Leading axes are free: [B, D] -> [B, A], [B, N, D] -> [B, N, A]."""

    hidden: int
    num_actions: int

    @nn.compact
    def __call__(self, features: Float[Array, "*axes D"]) -> Float[Array, "*axes A"]:
        hidden = checkpoint_name(Dense(self.hidden)(features), HIDDEN)
        return Dense(self.num_actions)(jax.nn.relu(hidden))


class AtomHead(nn.Module):
    """One hidden layer, then `num_atoms` outputs per action: [B, D] -> [B, A, N]."""

    hidden: int
    num_actions: int
    num_atoms: int

    @nn.compact
    def __call__(self, features: Float[Array, "B D"]) -> Float[Array, "B A N"]:
        outputs = ValueHead(self.hidden, self.num_actions * self.num_atoms)(features)
        return outputs.reshape(len(features), self.num_actions, self.num_atoms)
