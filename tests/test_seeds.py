"""Seeds side by side, as optimised as in a real run: each gives what it gives alone."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from test_drivers import driver, leaves, run, same

from fqf import environments

JITTABLE = [id for id in environments.IDS if environments.family(id) in environments.FAMILIES]
EVERY = [pytest.param(id, marks=() if id == "classic/cartpole" else pytest.mark.slow) for id in JITTABLE]


@pytest.mark.parametrize("env", EVERY)
def test_a_seed_beside_others_gives_the_bits_it_gives_alone(env):
    """Seeds run side by side as executions of one program; on every jittable environment."""
    device = driver(env)
    alone, _ = run(device, [1], num_periods=4)
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda seed: run(device, [seed], num_periods=4)[0], range(3)))
    assert same(alone, together[1])
    assert not same(alone, together[0])


@pytest.mark.slow
def test_vmapped_seeds_agree_up_to_rounding():
    """In one vmapped program sums may be taken in another order (docs/decisions/0005-seeds-and-speed.md)."""
    device = driver()
    grouped, _ = run(device, [0, 1, 2], num_periods=3)
    for index in range(3):
        alone, _ = run(device, [index], num_periods=3)
        for x, y in zip(leaves(grouped), leaves(alone), strict=True):
            np.testing.assert_allclose(x[index], y[0], rtol=1e-4, atol=1e-5)
