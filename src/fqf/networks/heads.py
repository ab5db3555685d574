"""From features to the values of all actions."""

import flax.linen as nn
import jax
from jaxtyping import Array, Float

from fqf.networks.layers import Dense


class ValueHead(nn.Module):
    """One hidden layer, one output per action. Leading axes are free: [B, D] -> [B, A], [B, N, D] -> [B, N, A]."""

    hidden: int
    num_actions: int

    @nn.compact
    def __call__(self, features: Float[Array, "*axes D"]) -> Float[Array, "*axes A"]:
        hidden = jax.nn.relu(Dense(self.hidden)(features))
        return Dense(self.num_actions)(hidden)
