"""Random keys: never used twice, never made twice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fqf.cycle import act_key, update_key


def test_the_tests_notice_a_key_that_is_used_twice():
    key = jax.random.key(0)
    jax.random.uniform(key)
    with pytest.raises(jax.errors.KeyReuseError):
        jax.random.uniform(key)


def test_no_key_of_a_run_is_made_twice():
    """JAX's check does not see through fold_in, so here all keys of 40 steps with 3 updates each are compared."""
    acting = jax.vmap(act_key, in_axes=(None, 0))(jax.random.key(0), jnp.arange(40))
    rows, indices = jnp.divmod(jnp.arange(120), 3)
    learning = jax.vmap(update_key, in_axes=(None, 0, 0))(jax.random.key(0), rows, indices)
    data = np.concatenate([jax.random.key_data(acting), jax.random.key_data(learning)])
    assert len(np.unique(data, axis=0)) == 160
