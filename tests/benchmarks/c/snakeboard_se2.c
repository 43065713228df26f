/* GNI for the snakeboard on SE(2) x T2, axle angle phi to the board: moment J of board and axles, m, J0, 2 J1, r.
   Sum and difference of the two rows are (0, 0, cos phi) and (r cos phi, sin phi, 0), orthogonal for the metric. */
#include "common.h"
#include "se2.h"
enum { PARAMETERS = 5, START = 13, ROW = 16 };

static void run(long n, double h, const double *parameters, V *state, V *out) {
  double J = parameters[0], m = parameters[1], hs = h / parameters[2], hf = h / parameters[3], r = parameters[4];
  double turn = r / J, along = 1 / m;
  V g[5], p[5], z[3];
  EACH(i, 5) g[i] = state[i];
  EACH(i, 5) p[i] = state[5 + i];
  EACH(i, 3) z[i] = state[10 + i];
  for (long k = 0; k < n; k++, out += ROW) {
    V hp[3] = {h * p[0], h * p[1], h * p[2]};
    increment(J, m, 0.0, h, hp, z);
    move(z, g, p);
    g[3] += hs * p[3], g[4] += hf * p[4];
    out[0] = constant(k + 1);
    EACH(i, 5) out[1 + i] = g[i], out[6 + i] = p[i];
    V c = cosine(g[4]), s = sine(g[4]), tc = turn * c, as = along * s;
    V lambda = 2.0 * (tc * p[0] + as * p[1]) / (r * c * tc + s * as);
    p[0] -= r * c * lambda, p[1] -= s * lambda, p[2] = -p[2];
    EACH(i, 5) out[11 + i] = p[i];
  }
}
#include "main.h"
