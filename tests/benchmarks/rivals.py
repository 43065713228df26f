"""Chaplygin's sphere as an equation that a user writes by hand, for the rivals of ``test_rivals.py``.

Its state is (x, y, R row by row, M), M = (J + D)W − D(γ·W)γ the angular momentum about the contact point in the body,
D = mr², γ = Rᵀe₃: Ṁ = M × W, Ṙ = RŴ, ẋ = r e₂·RW… (Borisov, Mamaev, *Regul. Chaotic Dyn.* 7 (2002) 177).
"""

from __future__ import annotations

from typing import Any


def field(y: Any, p: Any, stack: Any) -> Any:
    """ẏ; ``stack`` makes a vector of numbers."""
    m, J1, J2, J3, r = p[0], p[1], p[2], p[3], p[4]
    D = m * r * r
    I1, I2, I3 = 1 / (J1 + D), 1 / (J2 + D), 1 / (J3 + D)
    c1, c2, c3, M1, M2, M3 = y[8], y[9], y[10], y[11], y[12], y[13]
    a = I1 * c1 * c1 + I2 * c2 * c2 + I3 * c3 * c3
    b = I1 * c1 * M1 + I2 * c2 * M2 + I3 * c3 * M3
    s = D * b / (1 - D * a)
    W1, W2, W3 = I1 * (M1 + s * c1), I2 * (M2 + s * c2), I3 * (M3 + s * c3)
    return stack(
        (
            r * (y[5] * W1 + y[6] * W2 + y[7] * W3),
            -r * (y[2] * W1 + y[3] * W2 + y[4] * W3),
            y[3] * W3 - y[4] * W2,
            y[4] * W1 - y[2] * W3,
            y[2] * W2 - y[3] * W1,
            y[6] * W3 - y[7] * W2,
            y[7] * W1 - y[5] * W3,
            y[5] * W2 - y[6] * W1,
            y[9] * W3 - y[10] * W2,
            y[10] * W1 - y[8] * W3,
            y[8] * W2 - y[9] * W1,
            M2 * W3 - M3 * W2,
            M3 * W1 - M1 * W3,
            M1 * W2 - M2 * W1,
        )
    )


def scipy_member(task: tuple) -> Any:
    """The end of a member by SciPy, in a process of a pool."""
    import numpy as np
    from scipy.integrate import solve_ivp

    y, p, end, tolerance = task
    found = solve_ivp(
        lambda t, y: field(y, p, np.array), (0.0, end), y, "DOP853", rtol=tolerance, atol=tolerance, t_eval=[end]
    )
    return found.y[:, -1]
