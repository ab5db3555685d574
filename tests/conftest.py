import jax
import pytest


@pytest.fixture(autouse=True, scope="session")
def _no_key_is_used_twice():
    """JAX checks at trace time and at run time that no random key is consumed twice."""
    jax.config.update("jax_debug_key_reuse", True)
