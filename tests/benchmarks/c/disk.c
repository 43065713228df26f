/* GNI for the vertical disk on SE(2) x S1: m, moments J about a diameter and I about the axle, radius R. */
#include "common.h"
#include "se2.h"
enum { PARAMETERS = 4, START = 11, ROW = 13 };

static void run(long n, double h, const double *parameters, V *state, V *out) {
  double m = parameters[0], J = parameters[1], I = parameters[2], radius = parameters[3];
  double roll = radius / I, scale = 2 / (1 / m + radius * roll), inv = 1 / m;
  V g[4], p[4], z[3];
  EACH(i, 4) g[i] = state[i];
  EACH(i, 4) p[i] = state[4 + i];
  EACH(i, 3) z[i] = state[8 + i];
  for (long k = 0; k < n; k++, out += ROW) {
    V hp[3] = {h * p[0], h * p[1], h * p[2]};
    increment(J, m, 0.0, h, hp, z);
    move(z, g, p);
    g[3] += h / I * p[3];
    out[0] = constant(k + 1);
    EACH(i, 4) out[1 + i] = g[i], out[5 + i] = p[i];
    V lambda = scale * (inv * p[1] - roll * p[3]);
    p[1] -= lambda, p[2] = -p[2], p[3] += radius * lambda;
    EACH(i, 4) out[9 + i] = p[i];
  }
}
#include "main.h"
