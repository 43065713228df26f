import jax
import pytest


@pytest.fixture(autouse=True)
def double_precision():
    """Tests compute in float64, without touching the configuration of JAX."""
    with jax.enable_x64(True):
        yield
