"""Methods in quasi-velocities: the constraint by construction, whatever turns, however the forms are written."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_systems import spd

import geonh as gn
from geonh.groups import Translations


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=() if n == "gauss4" else pytest.mark.slow)
        for n in ("gauss4", "lobatto4", "dla", "itoh-abe", "projected")
    ],
)
def test_forms_that_jump_along_the_run(name):
    """The annihilator of a frame is completed by other rows as the frame turns: the same run as with smooth forms."""

    def turning(a, b):
        (c, s), (d, e) = ((jnp.cos(angle), jnp.sin(angle)) for angle in (a, b))
        return jnp.array([[c, s, 0.0, 0.0], [0.0, 0.0, d, e]])

    frame = gn.Distribution(frame=lambda x: turning(x[0] + 2 * x[3], x[1] - x[2]))
    forms = gn.Distribution(lambda x: turning(x[0] + 2 * x[3] + jnp.pi / 2, x[1] - x[2] + jnp.pi / 2))
    rng = np.random.default_rng(5)
    metric, runs = spd(rng, 4), []
    for distribution in (frame, forms):
        system = gn.System(
            Translations(4), metric=metric, distribution=distribution, potential=lambda x: jnp.sum(jnp.cos(x))
        )
        xi0 = system.project(np.zeros(4), np.array([1.0, 0.5, -1.0, 2.0]))
        runs.append(gn.solve(system, gn.methods[name].make(), xi0=xi0, dt=0.05, n_steps=200))
    by_frame, by_forms = runs
    rows = jax.vmap(frame.annihilator)(by_frame.g_vector)
    assert np.sum(np.abs(np.diff(rows, axis=0)).max(axis=(1, 2)) > 0.3) >= 2
    np.testing.assert_allclose(by_frame.g_vector, by_forms.g_vector, rtol=0, atol=1e-11)


def test_coordinates_are_renewed_before_they_end():
    """The distribution turns by many half turns, so that no constant coordinates serve along the whole run."""
    forms = lambda q: jnp.stack([jnp.sin(q[0]), -jnp.cos(q[0])])[None]  # noqa: E731
    blade = gn.System(
        Translations(3),
        metric=np.diag([1.0, 1.0, 1.0]),
        distribution=gn.Distribution(lambda q: jnp.concatenate([jnp.zeros((1, 1)), forms(q)], axis=1)),
    )
    run = gn.solve(blade, gn.RKMK(4), xi0=[1.0, 0.7, 0.0], dt=0.02, n_steps=2000)
    angle = run.t
    np.testing.assert_allclose(run.g[:, 1], 0.7 * np.sin(angle), rtol=0, atol=1e-6)
    np.testing.assert_allclose(run.g[:, 2], 0.7 * (1 - np.cos(angle)), rtol=0, atol=1e-6)
    assert np.abs(run.constraint_residual).max() < 1e-14
