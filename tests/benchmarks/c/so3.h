/* SO(3), Cayley's map: the flow of GNI. */

/* zeta with (1 - zeta^/2 + zeta zeta'/4)' J zeta = h p, p times h given: 3 equations with their own Jacobian each time.
   J full, symmetric; where it is diagonal the compiler sees the zeros. */
static inline void increment(double J[3][3], double h, const V hp[3], V z[3]) {
  for (int it = 0; it < MAX_ITERATIONS; it++) {
    V m[3], r[3], A[3][3], zJ[3];
    EACH(i, 3) m[i] = J[i][0] * z[0] + J[i][1] * z[1] + J[i][2] * z[2];
    V zm = 0.25 * (z[0] * m[0] + z[1] * m[1] + z[2] * m[2]);
    r[0] = m[0] + 0.5 * (z[1] * m[2] - z[2] * m[1]) + z[0] * zm - hp[0];
    r[1] = m[1] + 0.5 * (z[2] * m[0] - z[0] * m[2]) + z[1] * zm - hp[1];
    r[2] = m[2] + 0.5 * (z[0] * m[1] - z[1] * m[0]) + z[2] * zm - hp[2];
    EACH(j, 3) {
      zJ[j] = 0.5 * m[j]; /* a quarter of z.J + m, J symmetric */
      A[0][j] = J[0][j] + 0.5 * (z[1] * J[2][j] - z[2] * J[1][j]) + z[0] * zJ[j];
      A[1][j] = J[1][j] + 0.5 * (z[2] * J[0][j] - z[0] * J[2][j]) + z[1] * zJ[j];
      A[2][j] = J[2][j] + 0.5 * (z[0] * J[1][j] - z[1] * J[0][j]) + z[2] * zJ[j];
    }
    A[0][0] += zm, A[1][1] += zm, A[2][2] += zm;
    A[0][1] += 0.5 * m[2], A[1][0] -= 0.5 * m[2];
    A[1][2] += 0.5 * m[0], A[2][1] -= 0.5 * m[0];
    A[2][0] += 0.5 * m[1], A[0][2] -= 0.5 * m[1];
    solve3(A, r);
    if (!corrected(z, r, h)) break;
  }
}

/* R <- RW, p <- W'p with W = cay(z). */
static inline void move(const V z[3], V R[9], V p[3]) {
  V x = z[0], y = z[1], w = z[2], s = 1.0 / (1.0 + 0.25 * (x * x + y * y + w * w)), t = 0.5 * s;
  V W[9] = {1.0 - t * (y * y + w * w), t * x * y - s * w,         t * x * w + s * y,
            t * x * y + s * w,         1.0 - t * (x * x + w * w), t * y * w - s * x,
            t * x * w - s * y,         t * y * w + s * x,         1.0 - t * (x * x + y * y)};
  EACH(i, 3) {
    V a = R[3 * i], b = R[3 * i + 1], c = R[3 * i + 2];
    EACH(j, 3) R[3 * i + j] = a * W[j] + b * W[3 + j] + c * W[6 + j];
  }
  V a = p[0], b = p[1], c = p[2];
  EACH(i, 3) p[i] = W[i] * a + W[3 + i] * b + W[6 + i] * c;
}
