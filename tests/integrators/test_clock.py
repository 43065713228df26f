"""Clock: times and controls."""

import jax.numpy as jnp
import numpy as np
import pytest

from geonh.integrators.clock import Clock


def test_times_and_controls():
    clock = Clock(1.0, 0.1, jnp.sin)
    assert clock.time(3) == 1.0 + 3 * 0.1
    np.testing.assert_allclose(clock.control(2), np.sin(1.2), rtol=1e-15)
    np.testing.assert_allclose(clock.between(1.05), np.sin(1.05), rtol=1e-15)
    sub = clock.part(4, 0.3, 0.5)
    np.testing.assert_allclose(sub.time(1), 1.0 + 4.8 * 0.1, rtol=1e-15)
    np.testing.assert_allclose(sub.control(1), np.sin(1.48), rtol=1e-15)
    assert Clock(0.0, 0.1).control(3) is None
    assert Clock(0.0, 0.1).between(0.3) is None
    sampled = Clock(0.0, 0.1, np.arange(5.0))
    assert sampled.control(3) == 3.0
    for wanted in (lambda: sampled.between(0.0), lambda: sampled.part(0, 0.0, 0.5)):
        with pytest.raises(TypeError, match="as a function of t, not an array"):
            wanted()
