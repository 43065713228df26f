"""What is asked in vain is named, and bounds of states, rates and functions are kept."""

import numpy as np
import pytest
from test_optimal import MASS

from geonh.control import optimal_control

OPTIONS = {"end": [1.0], "n_controls": 1, "span": 2.0, "n_steps": 20}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"bounds": (-1.0, 1.0)}, r"the (point|velocity) at the end is off by 0\.\d"),
        ({"limits": {"vx": (-0.2, 0.2)}}, r"(the (point|velocity) at the end is off|vx is beyond its bounds) by 0\.\d"),
        (
            {"path": [(lambda t, g, xi, u: u[0], 0.0, 9.0), (lambda t, g, xi, u: u[0], -9.0, -0.4)]},
            r"path\[0\] at node \d+ is beyond its bounds by 0\.\d.*path\[1\]|path\[1\] .* by 0\.\d.*path\[0\]",
        ),
        (
            {"xi_end": "free", "terminal": (lambda t, g, xi, u: g[0], 2.0, 3.0)},
            r"(terminal|the point at the end) is (beyond its bounds|off) by 0\.5, (terminal|the point) .* by 0\.\d",
        ),
    ],
    ids=["force", "speed", "contradiction", "end"],
)
def test_what_cannot_be_met_is_said(asked, words):
    with pytest.raises(RuntimeError, match=words):
        optimal_control(MASS, **OPTIONS, **asked)


def test_an_end_beyond_its_bounds_is_refused():
    with pytest.raises(ValueError, match=r"end: x is 1 there, beyond its bounds \(-0.5, 0.5\): end elsewhere"):
        optimal_control(MASS, **OPTIONS, limits={"x": (-0.5, 0.5)})
    with pytest.raises(ValueError, match="xi_end: vx is 2 there, beyond its bounds"):
        optimal_control(MASS, **OPTIONS, xi_end=[2.0], limits={"vx": (-1.0, 1.0)})


@pytest.mark.slow
def test_bounds_bind():
    """A speed limit, rates of controls, and a bound of a function: each is reached, and costs more."""
    free = optimal_control(MASS, **OPTIONS)
    speed = 0.9 * np.abs(free.xi).max()
    rate = 0.8 * np.abs(np.diff(free.u, axis=0)).max() / free.t[1]
    for asked, of, bound in (
        ({"limits": {"vx": (-speed, speed)}}, lambda r: np.abs(r.xi).max(), speed),
        ({"path": (lambda t, g, xi, u: xi[0], -speed, speed)}, lambda r: np.abs(r.xi).max(), speed),
        (
            {"bounds": (-5.0, 5.0), "xi_end": "free", "rates": (-rate, rate)},
            lambda r: np.abs(np.diff(r.u, axis=0)).max() / r.t[1],
            rate,
        ),
    ):
        result = optimal_control(MASS, **OPTIONS, **asked)
        assert of(result) <= bound * (1 + 1e-7)
        if "rates" not in asked:
            assert of(result) > bound * (1 - 1e-6)
            assert result.cost > free.cost
        assert result.residual < 1e-7
