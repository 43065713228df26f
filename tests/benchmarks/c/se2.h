/* SE(2), Cayley's map: the flow of GNI, for a metric with moment J, mass m and coupling c of turning and the third
   velocity: M = [[J, 0, c], [0, m, 0], [c, 0, m]]. */

/* zeta = (w, u, v) with dcay^-1' M zeta = h p. With REDUCED u and v are eliminated by hand (given w they
   are linear), and one equation is left; else there are three, with their Jacobian each time, as the library has it. */
static inline void increment(double J, double m, double c, double h, const V hp[3], V z[3]) {
#ifdef REDUCED
  double inv = 1 / m, offset = c * inv, moment = J - c * offset;
  V w = z[0], size = 0.25 * inv * (hp[1] * hp[1] + hp[2] * hp[2]), torque = hp[0] - offset * hp[2];
  for (int it = 0; it < MAX_ITERATIONS; it++) {
    V ww = 0.25 * w * w, kappa = 1.0 / (1.0 + ww);
    V step = (moment * w * (1.0 + ww) + w * kappa * size - torque) /
             (moment * (1.0 + 3.0 * ww) + size * kappa * (1.0 - 2.0 * ww * kappa));
    w -= step;
    if (!any_above(step * step, 1e-16 * (w * w + z[1] * z[1] + z[2] * z[2] + 1e-10 * h * h))) break;
  }
  V kappa = inv / (1.0 + 0.25 * w * w);
  z[0] = w, z[1] = kappa * (hp[1] + 0.5 * w * hp[2]), z[2] = kappa * (hp[2] - 0.5 * w * hp[1]) - offset * w;
#else
  for (int it = 0; it < MAX_ITERATIONS; it++) {
    V w = z[0], u = z[1], v = z[2], half = 0.5 * w, a = J * w + c * v, f = m * u, e = c * w + m * v;
    V s = 0.5 * (half * u - v), t = 0.5 * (half * v + u), k = 1.0 + half * half;
    V r[3] = {k * a + s * f + t * e - hp[0], f - half * e - hp[1], e + half * f - hp[2]};
    V A[3][3] = {{k * J + half * a + 0.25 * (u * f + v * e) + t * c,
                  s * m + 0.5 * (half * f + e),
                  k * c + t * m + 0.5 * (half * e - f)},
                 {-0.5 * e - half * c, constant(m), -half * m},
                 {c + 0.5 * f, half * m, constant(m)}};
    solve3(A, r);
    if (!corrected(z, r, h)) break;
  }
#endif
}

/* (theta, x, y) <- (theta, x, y) cay(z), p <- Ad* p. */
static inline void move(const V z[3], V g[3], V p[3]) {
  V w = z[0], half = 0.5 * w, kappa = 1.0 / (1.0 + half * half);
  V x = kappa * (z[1] - half * z[2]), y = kappa * (z[2] + half * z[1]), c = kappa * (1.0 - half * half), s = kappa * w;
  V cos_theta = cosine(g[0]), sin_theta = sine(g[0]), f = p[1], e = p[2];
  g[1] += cos_theta * x - sin_theta * y, g[2] += sin_theta * x + cos_theta * y, g[0] += 2.0 * arctangent(half);
  p[0] += f * y - e * x, p[1] = c * f + s * e, p[2] = c * e - s * f;
}
