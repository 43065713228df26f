/* GNI for the Chaplygin sleigh on SE(2): mass m, moment I about the centre of mass, its distance a from the edge. */
#include "common.h"
#include "se2.h"
enum { PARAMETERS = 3, START = 9, ROW = 10 };

static void run(long n, double h, const double *parameters, V *state, V *out) {
  double m = parameters[0], a = parameters[2], J = parameters[1] + m * a * a, c = m * a, share = c / J;
  V g[3], p[3], z[3];
  EACH(i, 3) g[i] = state[i];
  EACH(i, 3) p[i] = state[3 + i];
  EACH(i, 3) z[i] = state[6 + i];
  for (long k = 0; k < n; k++, out += ROW) {
    V hp[3] = {h * p[0], h * p[1], h * p[2]};
    increment(J, m, c, h, hp, z);
    move(z, g, p);
    out[0] = constant(k + 1);
    EACH(i, 3) out[1 + i] = g[i], out[4 + i] = p[i];
    p[2] = 2.0 * share * p[0] - p[2];
    EACH(i, 3) out[7 + i] = p[i];
  }
}
#include "main.h"
