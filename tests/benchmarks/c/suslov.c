/* GNI for Suslov's problem on SO(3): inertia J (9 numbers), constraint a.Omega = 0. */
#include "common.h"
#include "so3.h"
enum { PARAMETERS = 12, START = 15, ROW = 16 };

static void run(long n, double h, const double *parameters, V *state, V *out) {
  double J[3][3], a[3], raised[3], b[3], K[3][3];
  memcpy(J, parameters, sizeof J);
  memcpy(a, parameters + 9, sizeof a);
  for (int i = 0; i < 3; i++) { /* J^-1 a by the adjugate, once */
    int j = (i + 1) % 3, k = (i + 2) % 3;
    for (int l = 0; l < 3; l++) {
      int u = (l + 1) % 3, v = (l + 2) % 3;
      K[i][l] = J[j][u] * J[k][v] - J[j][v] * J[k][u];
    }
  }
  double det = J[0][0] * K[0][0] + J[0][1] * K[0][1] + J[0][2] * K[0][2], size = 0;
  for (int i = 0; i < 3; i++) raised[i] = (K[0][i] * a[0] + K[1][i] * a[1] + K[2][i] * a[2]) / det;
  for (int i = 0; i < 3; i++) size += a[i] * raised[i];
  for (int i = 0; i < 3; i++) b[i] = 2 * raised[i] / size;
  V R[9], p[3], z[3];
  EACH(i, 9) R[i] = state[i];
  EACH(i, 3) p[i] = state[9 + i];
  EACH(i, 3) z[i] = state[12 + i];
  for (long k = 0; k < n; k++, out += ROW) {
    V hp[3] = {h * p[0], h * p[1], h * p[2]};
    increment(J, h, hp, z);
    move(z, R, p);
    V lambda = b[0] * p[0] + b[1] * p[1] + b[2] * p[2];
    out[0] = constant(k + 1);
    EACH(i, 9) out[1 + i] = R[i];
    EACH(i, 3) out[10 + i] = p[i], p[i] -= a[i] * lambda, out[13 + i] = p[i];
  }
}
#include "main.h"
