"""Equations of motion as a user writes them by hand, in scalars, for the rivals of ``test_rivals.py``.

Each is a function of the state and the parameters, both sequences of numbers, and of a namespace with ``sin``, ``cos``
and ``sqrt``; it returns the rates of the state as a list. NumPy, JAX and numba take them as they are; ``written`` puts
them out as the straight-line code that gcc is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any


def sphere(y: Any, p: Any, _: Any = math) -> list:
    """Chaplygin's sphere on a table at rest: y = (x, y, R row by row, M), p = (m, J1, J2, J3, r).

    M = (J + D)W − D(γ·W)γ is the angular momentum about the contact point in the body, D = mr², γ = Rᵀe₃: Ṁ = M × W,
    Ṙ = RŴ, ẋ = r e₂·RW… (Borisov, Mamaev, *Regul. Chaotic Dyn.* 7 (2002) 177).
    """
    m, J1, J2, J3, r = p[0], p[1], p[2], p[3], p[4]
    D = m * r * r
    I1, I2, I3 = 1 / (J1 + D), 1 / (J2 + D), 1 / (J3 + D)
    c1, c2, c3, M1, M2, M3 = y[8], y[9], y[10], y[11], y[12], y[13]
    a = I1 * c1 * c1 + I2 * c2 * c2 + I3 * c3 * c3
    b = I1 * c1 * M1 + I2 * c2 * M2 + I3 * c3 * M3
    s = D * b / (1 - D * a)
    W1, W2, W3 = I1 * (M1 + s * c1), I2 * (M2 + s * c2), I3 * (M3 + s * c3)
    return [
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
    ]


def snakeboard(y: Any, p: Any, of: Any = math) -> list:
    """Reduced by hand to the one speed w that the wheels leave: y = (x, y, θ, ψ, φ, w, ψ̇, φ̇), p = (m, J, r).

    The board turns at θ̇ = −w sin φ and moves ahead at v = r w cos φ; J is the moment of board and axles. The power of
    the constraint forces vanishes, (J sin²φ + m r² cos²φ)ẇ = −φ̇ w sin φ cos φ (J − m r²), and φ̇ and ψ̇ are constant.
    """
    m, J, r, w, spin, steer = p[0], p[1], p[2], y[5], y[6], y[7]
    s, c = of.sin(y[4]), of.cos(y[4])
    ahead, mr2 = r * w * c, m * r * r
    rate = -steer * w * s * c * (J - mr2) / (J * s * s + mr2 * c * c)
    return [ahead * of.cos(y[2]), ahead * of.sin(y[2]), -w * s, spin, steer, rate, 0 * w, 0 * w]


# --- the bicycle -------------------------------------------------------------------------------------------
WHEEL_BASE, TRAIL, TILT, GRAVITY = 1.02, 0.08, math.pi / 10, 9.81
REAR, FRONT, FRAME, FORK = (0.3, 2.0, 0.0603, 0.12), (0.35, 3.0, 0.1405, 0.28), (0.3, -0.9), (0.9, -0.7, 4.0)
FRAME_INERTIA, FORK_INERTIA = (9.2, 11.0, 2.8, 2.4), (0.05892, 0.06, 0.00708, -0.00756)


def bicycle(y: Any, p: Any, of: Any = math) -> list:
    """Whipple's bicycle by Newton and Euler for four bodies, with a multiplier for each of six constraints.

    y = (X, R row by row, δ, θ_R, θ_F, ω, v, δ̇, θ̇_R, θ̇_F), p = (mass of frame and rider,); frames, signs and numbers
    are those of Meijaard, Papadopoulos, Ruina, Schwab, Proc. R. Soc. A 463 (2007) 1955.
    """
    R, omega, v, steer, rear, front = [y[3:6], y[6:9], y[9:12]], y[15:18], y[18:21], y[21], y[22], y[23]
    down = R[2]
    s, a = [math.sin(TILT), 0.0, math.cos(TILT)], [WHEEL_BASE + TRAIL, 0.0, REAR[0]]
    sd, cd, e2 = of.sin(y[12]), of.cos(y[12]), [0.0, 1.0, 0.0]

    def turned(u: Any) -> list:
        """By the steer angle."""
        once = cross(s, u)
        return add(u, scaled(sd, once), scaled(1 - cd, cross(s, once)))

    n = turned(e2)
    to_fork = turned([FORK[0] - a[0], 0.0, FORK[1] + REAR[0] - a[2]])
    to_hub = turned([WHEEL_BASE - a[0], 0.0, REAR[0] - FRONT[0] - a[2]])
    columns = [turned(e) for e in ([1.0, 0.0, 0.0], e2, [0.0, 0.0, 1.0])]
    fork = [[sum_of(FORK_TENSOR[k][m] * columns[k][i] * columns[m][j] for k in range(3) for m in range(3))
             for j in range(3)] for i in range(3)]  # fmt: skip
    hub = [[(FRONT[2] if i == j else 0.0) + (FRONT[3] - FRONT[2]) * n[i] * n[j] for j in range(3)] for i in range(3)]
    none = [0.0, 0.0, 0.0]
    swing, bent = scaled(steer, s), add(omega, scaled(steer, s))
    # of each body: mass, centre, its place from the steer axis, inertia, and how ω_i depends on δ̇, θ̇_R, θ̇_F
    bodies = [
        (REAR[1], none, none, [[REAR[2], 0, 0], [0, REAR[3], 0], [0, 0, REAR[2]]], (none, e2, none)),
        (p[0], [FRAME[0], 0.0, FRAME[1] + REAR[0]], none, FRAME_TENSOR, (none, none, none)),
        (FORK[2], add(a, to_fork), to_fork, fork, (s, none, none)),
        (FRONT[1], add(a, to_hub), to_hub, hub, (s, none, n)),
    ]
    units = [[1.0, 0.0, 0.0], e2, [0.0, 0.0, 1.0]]
    M, force = [[0.0] * 9 for _ in range(9)], [0.0] * 9
    for mass, r, from_axis, inertia, turns in bodies:
        about = add(omega, *(scaled(w, u) for w, u in zip((steer, rear, front), turns, strict=True)))
        moving = [*(cross(e, r) for e in units), *units, cross(s, from_axis), none, none]
        turning = [*units, none, none, none, *turns]
        relative = cross(swing, from_axis)
        pull = add(cross(omega, v), cross(omega, cross(omega, r)), scaled(2, cross(omega, relative)),
                   cross(swing, relative), scaled(-GRAVITY, down))  # fmt: skip
        gyro = add(cross(omega, scaled(steer, turns[0])), scaled(rear, cross(omega, turns[1])),
                   scaled(front, cross(bent, turns[2])))  # fmt: skip
        torque = add(times(inertia, gyro), cross(about, times(inertia, about)))
        spun = [times(inertia, u) for u in turning]
        for i in range(9):
            force[i] = force[i] - mass * dot(moving[i], pull) - dot(turning[i], torque)
            for j in range(i, 9):
                M[i][j] = M[i][j] + mass * dot(moving[i], moving[j]) + dot(turning[i], spun[j])
    rows, right = [], []
    falling = cross(down, omega)
    for radius, hub_at, from_axis, axle, axle_rate, turn, which in (
        (REAR[0], none, none, e2, none, rear, 7),
        (FRONT[0], add(a, to_hub), to_hub, n, cross(swing, n), front, 8),
    ):
        along = dot(down, axle)
        u = add(down, scaled(-along, axle))
        u_rate = add(falling, scaled(-dot(falling, axle) - dot(down, axle_rate), axle), scaled(-along, axle_rate))
        over = 1 / of.sqrt(dot(u, u))
        d = scaled(radius * over, u)
        d_rate = scaled(radius * over, add(u_rate, scaled(-dot(u, u_rate) * over * over, u)))
        contact, swings = add(hub_at, d), which == 8
        contact_rate = add(cross(swing, from_axis), d_rate) if swings else d_rate
        rolls = cross(axle, d)
        steers = cross(s, add(from_axis, d)) if swings else none
        late = add(cross(bent if swings else omega, contact_rate),
                   scaled(turn, add(cross(axle_rate, d), cross(axle, d_rate))))  # fmt: skip
        arms = [cross(e, contact) for e in units]
        for i in range(3):
            wheels = [rolls[i] if which == k else 0.0 for k in (7, 8)]
            rows.append([*(arm[i] for arm in arms), *units[i], steers[i], *wheels])
            right.append(-late[i])
    rate = constrained(M, force, rows, right)
    place = [dot(row, v) for row in R]
    turn = [x for row in R for x in (row[1] * omega[2] - row[2] * omega[1], row[2] * omega[0] - row[0] * omega[2],
                                     row[0] * omega[1] - row[1] * omega[0])]  # fmt: skip
    return [*place, *turn, steer, rear, front, *rate]


def constrained(M: list, force: list, rows: list, right: list) -> list:
    """Accelerations of Ma = force + rowsᵀλ, rows a = right; of M the upper triangle."""
    m = len(rows)
    result = solved(M, [[*(row[i] for row in rows), force[i]] for i in range(len(M))])
    schur = [[sum_of(rows[i][k] * result[k][j] for k in range(len(M))) for j in range(m)] for i in range(m)]
    short = [[right[i] - sum_of(rows[i][k] * result[k][m] for k in range(len(M)))] for i in range(m)]
    lam = solved(schur, short)
    return [result[k][m] + sum_of(result[k][j] * lam[j][0] for j in range(m)) for k in range(len(M))]


def solved(A: list, B: list) -> list:
    """X of AX = B for symmetric A > 0, by elimination; of A the upper triangle is read."""
    n, rows, X = len(A), [list(row) for row in A], [list(row) for row in B]
    for k in range(n):
        over = 1 / rows[k][k]
        for i in range(k + 1, n):
            factor = rows[k][i] * over
            for j in range(i, n):
                rows[i][j] = rows[i][j] - factor * rows[k][j]
            X[i] = [x - factor * z for x, z in zip(X[i], X[k], strict=True)]
    for i in reversed(range(n)):
        for j in range(i + 1, n):
            X[i] = [x - rows[i][j] * z for x, z in zip(X[i], X[j], strict=True)]
        over = 1 / rows[i][i]
        X[i] = [x * over for x in X[i]]
    return X


def sum_of(terms: Any) -> Any:
    total = 0.0
    for x in terms:
        total = total + x
    return total


def dot(a: Sequence, b: Sequence) -> Any:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a: Sequence, b: Sequence) -> list:
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def scaled(c: Any, a: Sequence) -> list:
    return [c * x for x in a]


def add(*vectors: Sequence) -> list:
    return [sum_of(xs) for xs in zip(*vectors, strict=True)]


def times(A: Sequence, x: Sequence) -> list:
    return [dot(row, x) for row in A]


def _tensor(moments: Sequence) -> list:
    xx, yy, zz, xz = moments
    return [[xx, 0.0, xz], [0.0, yy, 0.0], [xz, 0.0, zz]]


FRAME_TENSOR, FORK_TENSOR = _tensor(FRAME_INERTIA), _tensor(FORK_INERTIA)


# --- straight-line code ------------------------------------------------------------------------------------
class Scalar:
    """A number that is not known yet; what is done with it is a line of code. Zeros and ones that are known fold."""

    def __init__(self, name: str, lines: list[str]) -> None:
        self.name, self.lines = name, lines

    def made(self, text: str) -> Scalar:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return Scalar(name, self.lines)

    def __add__(self, other: Any) -> Any:
        return self if _is(other, 0) else self.made(f"{self.name} + {_text(other)}")

    def __sub__(self, other: Any) -> Any:
        return self if _is(other, 0) else self.made(f"{self.name} - {_text(other)}")

    def __rsub__(self, other: Any) -> Any:
        return -self if _is(other, 0) else self.made(f"{_text(other)} - {self.name}")

    def __mul__(self, other: Any) -> Any:
        return 0.0 if _is(other, 0) else self if _is(other, 1) else self.made(f"{self.name} * {_text(other)}")

    def __truediv__(self, other: Any) -> Any:
        return self.made(f"{self.name} / {_text(other)}")

    def __rtruediv__(self, other: Any) -> Any:
        return self.made(f"{_text(other)} / {self.name}")

    def __neg__(self) -> Any:
        return self.made(f"-{self.name}")

    __radd__, __rmul__ = __add__, __mul__


class Functions:
    """Their namespace."""

    def __getattr__(self, name: str) -> Callable:
        return lambda x: x.made(f"{name}({x.name})")


def _is(x: Any, number: float) -> bool:
    return not isinstance(x, Scalar) and x == number


def _text(x: Any) -> str:
    return x.name if isinstance(x, Scalar) else repr(float(x))


def written(field: Callable, n: int, n_parameters: int, lane: str = "") -> tuple[list[str], list[str]]:
    """Lines v0 = …, and the texts of the rates, of y[i] and p[i]."""
    lines: list[str] = []
    y = [Scalar(f"y[{i}]{lane}", lines) for i in range(n)]
    p = [Scalar(f"p[{i}]{lane}", lines) for i in range(n_parameters)]
    return lines, [_text(x) for x in field(y, p, Functions())]


def scipy_member(task: tuple) -> Any:
    """The end of a member by SciPy, in a process of a pool."""
    from scipy.integrate import solve_ivp

    field, y, p, end, tolerance = task
    y, p = y.tolist(), p.tolist()
    result = solve_ivp(
        lambda t, y: field(y.tolist(), p), (0.0, end), y, "DOP853", rtol=tolerance, atol=tolerance, t_eval=[end]
    )
    return result.y[:, -1]
