from pathlib import Path

import jax
import pytest

# Programs that several tests compile are compiled once, also across test processes.
jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parents[1] / ".pytest_cache" / "jax"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


@pytest.fixture(scope="module")
def compile_quickly():
    """For programs that run a few times only: compiling is what costs."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(autouse=True, scope="session")
def _no_key_is_used_twice():
    """JAX checks at trace time and at run time that no random key is consumed twice."""
    jax.config.update("jax_debug_key_reuse", True)
