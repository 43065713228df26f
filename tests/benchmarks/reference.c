/* Hand-written steps to measure against: gcc -O3, one trajectory, every node (k, g, p+, p-) kept. */
#include <math.h>

/* GNI on R2 x T3 for the snakeboard, q = (x, y, theta, psi, phi), diagonal metric M, axle distance r. Explicit. */
void snakeboard(long n, double h, const double *M, double r, double *q, double *p, double *out) {
  for (long k = 0; k < n; k++) {
    double *row = out + 16 * k;
    for (int i = 0; i < 5; i++) q[i] += h * p[i] / M[i];
    double sf = sin(q[2] + q[4]), cf = cos(q[2] + q[4]), sb = sin(q[2] - q[4]), cb = cos(q[2] - q[4]);
    double arm = r * cos(q[4]);
    double a[3] = {sf, -cf, arm}, b[3] = {sb, -cb, -arm};
    double aa = 0, ab = 0, bb = 0, ra = 0, rb = 0;
    for (int i = 0; i < 3; i++) {
      aa += a[i] * a[i] / M[i]; ab += a[i] * b[i] / M[i]; bb += b[i] * b[i] / M[i];
      ra += a[i] * p[i] / M[i]; rb += b[i] * p[i] / M[i];
    }
    double det = aa * bb - ab * ab, la = (bb * ra - ab * rb) / det, lb = (aa * rb - ab * ra) / det;
    row[0] = k + 1;
    for (int i = 0; i < 5; i++) { row[1 + i] = q[i]; row[6 + i] = p[i]; }
    for (int i = 0; i < 3; i++) p[i] -= 2 * (a[i] * la + b[i] * lb);
    for (int i = 0; i < 5; i++) row[11 + i] = p[i];
  }
}

static void solve3(double A[3][3], double *b) {
  for (int k = 0; k < 3; k++)
    for (int i = k + 1; i < 3; i++) {
      double f = A[i][k] / A[k][k];
      for (int j = k; j < 3; j++) A[i][j] -= f * A[k][j];
      b[i] -= f * b[k];
    }
  for (int i = 2; i >= 0; i--) {
    for (int j = i + 1; j < 3; j++) b[i] -= A[i][j] * b[j];
    b[i] /= A[i][i];
  }
}

/* Reduced GNI on SO(3) for Suslov's problem, Cayley map, Newton to a tolerance; R row by row, constraint axis e3. */
void suslov(long n, double h, const double *J, const double *Jinv, double *R, double *p, double *z, double *out) {
  for (long k = 0; k < n; k++) {
    double *row = out + 16 * k;
    for (int it = 0; it < 30; it++) {
      double m[3], res[3], A[3][3];
      for (int i = 0; i < 3; i++) m[i] = (J[3*i] * z[0] + J[3*i+1] * z[1] + J[3*i+2] * z[2]) / h;
      double zm = z[0] * m[0] + z[1] * m[1] + z[2] * m[2];
      double c[3] = {z[1]*m[2] - z[2]*m[1], z[2]*m[0] - z[0]*m[2], z[0]*m[1] - z[1]*m[0]};
      /* (1 - z^/2 + zz'/4)' m = m + z x m / 2 + z (z.m) / 4 */
      for (int i = 0; i < 3; i++) res[i] = m[i] + 0.5 * c[i] + 0.25 * z[i] * zm - p[i];
      for (int j = 0; j < 3; j++) {
        double Jj[3] = {J[j] / h, J[3+j] / h, J[6+j] / h};
        double zj = z[0] * Jj[0] + z[1] * Jj[1] + z[2] * Jj[2] + m[j];
        double e[3] = {j == 0, j == 1, j == 2};
        double d[3] = {z[1]*Jj[2] - z[2]*Jj[1] + e[1]*m[2] - e[2]*m[1],
                       z[2]*Jj[0] - z[0]*Jj[2] + e[2]*m[0] - e[0]*m[2],
                       z[0]*Jj[1] - z[1]*Jj[0] + e[0]*m[1] - e[1]*m[0]};
        for (int i = 0; i < 3; i++) A[i][j] = Jj[i] + 0.5 * d[i] + 0.25 * (e[i] * zm + z[i] * zj);
      }
      solve3(A, res);
      double step = 0, size = 0;
      for (int i = 0; i < 3; i++) { z[i] -= res[i]; step = fmax(step, fabs(res[i])); size = fmax(size, fabs(z[i])); }
      if (step <= 1e-9 * size) break;
    }
    double s = 1 / (1 + 0.25 * (z[0]*z[0] + z[1]*z[1] + z[2]*z[2])), x = z[0], y = z[1], w = z[2];
    double W[9] = {1 - 0.5*s*(y*y + w*w), s*(-w + 0.5*x*y), s*(y + 0.5*x*w),
                   s*(w + 0.5*x*y), 1 - 0.5*s*(x*x + w*w), s*(-x + 0.5*y*w),
                   s*(-y + 0.5*x*w), s*(x + 0.5*y*w), 1 - 0.5*s*(x*x + y*y)};
    double T[9], pp[3];
    for (int i = 0; i < 3; i++)
      for (int j = 0; j < 3; j++) T[3*i+j] = R[3*i] * W[j] + R[3*i+1] * W[3+j] + R[3*i+2] * W[6+j];
    for (int i = 0; i < 9; i++) R[i] = T[i];
    for (int i = 0; i < 3; i++) pp[i] = W[i] * p[0] + W[3+i] * p[1] + W[6+i] * p[2];
    double lam = (Jinv[6] * pp[0] + Jinv[7] * pp[1] + Jinv[8] * pp[2]) / Jinv[8];
    row[0] = k + 1;
    for (int i = 0; i < 9; i++) row[1 + i] = R[i];
    for (int i = 0; i < 3; i++) row[10 + i] = pp[i];
    pp[2] -= 2 * lam;
    for (int i = 0; i < 3; i++) { p[i] = pp[i]; row[13 + i] = p[i]; }
  }
}
