/* GNI for the Chaplygin sphere on R2 x SO(3): m, r, principal moments J (3), rate of the table. */
#include "common.h"
#include "so3.h"
enum { PARAMETERS = 6, START = 19, ROW = 22 };

static void run(long n, double h, const double *parameters, V *state, V *out) {
  double mass = parameters[0], r = parameters[1], rate = parameters[5], inv = 1 / mass;
  double J[3][3] = {{parameters[2], 0, 0}, {0, parameters[3], 0}, {0, 0, parameters[4]}};
  double spin[3] = {r / J[0][0], r / J[1][1], r / J[2][2]};
  V x[2], R[9], p[5], z[3];
  EACH(i, 2) x[i] = state[i];
  EACH(i, 9) R[i] = state[2 + i];
  EACH(i, 5) p[i] = state[11 + i];
  EACH(i, 3) z[i] = state[16 + i];
  for (long k = 0; k < n; k++, out += ROW) {
    V hp[3] = {h * p[2], h * p[3], h * p[4]};
    increment(J, h, hp, z);
    move(z, R, p + 2);
    x[0] += h * inv * p[0], x[1] += h * inv * p[1];
    out[0] = constant(k + 1), out[1] = x[0], out[2] = x[1];
    EACH(i, 9) out[3 + i] = R[i];
    EACH(i, 5) out[12 + i] = p[i];
    /* rows (1, 0, -r R1) and (0, 1, r R0) of R; right-hand side rate (-y, x) */
    V aa = constant(inv), bb = aa, ab = constant(0), va = inv * p[0] + rate * x[1], vb = inv * p[1] - rate * x[0];
    EACH(i, 3) {
      V a = spin[i] * R[3 + i], b = spin[i] * R[i];
      aa += r * R[3 + i] * a, ab -= r * R[i] * a, bb += r * R[i] * b, va -= a * p[2 + i], vb += b * p[2 + i];
    }
    V scale = 2.0 / (aa * bb - ab * ab), la = (bb * va - ab * vb) * scale, lb = (aa * vb - ab * va) * scale;
    p[0] -= la, p[1] -= lb;
    EACH(i, 3) p[2 + i] += r * (R[3 + i] * la - R[i] * lb);
    EACH(i, 5) out[17 + i] = p[i];
  }
}
#include "main.h"
