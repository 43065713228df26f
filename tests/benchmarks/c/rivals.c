/* RK4 for many members, eight at a time in vectors, blocks over threads: gcc -O3 -march=native -ffast-math -fopenmp.
   y[members][N], p[members][P]; the state and parameters of a member are those of rivals.py. */
#include <math.h>
#define L 8
#define SIN(x) sin(x)
#define COS(x) cos(x)

/* Chaplygin's sphere on a table at rest: y = (x, y, R row by row, M), p = (m, J1, J2, J3, r). */
static inline __attribute__((always_inline)) void sphere(const double (*y)[L], const double (*p)[L], double (*f)[L]) {
#pragma omp simd
  for (int l = 0; l < L; l++) {
    double D = p[0][l] * p[4][l] * p[4][l], r = p[4][l];
    double I1 = 1 / (p[1][l] + D), I2 = 1 / (p[2][l] + D), I3 = 1 / (p[3][l] + D);
    double c1 = y[8][l], c2 = y[9][l], c3 = y[10][l];            /* Rᵀe₃ */
    double M1 = y[11][l], M2 = y[12][l], M3 = y[13][l];
    double a = I1 * c1 * c1 + I2 * c2 * c2 + I3 * c3 * c3, b = I1 * c1 * M1 + I2 * c2 * M2 + I3 * c3 * M3;
    double s = D * b / (1 - D * a);
    double W1 = I1 * (M1 + s * c1), W2 = I2 * (M2 + s * c2), W3 = I3 * (M3 + s * c3);
    for (int i = 0; i < 3; i++) {
      double R1 = y[2 + 3 * i][l], R2 = y[3 + 3 * i][l], R3 = y[4 + 3 * i][l];
      f[2 + 3 * i][l] = R2 * W3 - R3 * W2;
      f[3 + 3 * i][l] = R3 * W1 - R1 * W3;
      f[4 + 3 * i][l] = R1 * W2 - R2 * W1;
    }
    f[0][l] = r * (y[5][l] * W1 + y[6][l] * W2 + y[7][l] * W3);
    f[1][l] = -r * (y[2][l] * W1 + y[3][l] * W2 + y[4][l] * W3);
    f[11][l] = M2 * W3 - M3 * W2;
    f[12][l] = M3 * W1 - M1 * W3;
    f[13][l] = M1 * W2 - M2 * W1;
  }
}

#define RUN(NAME, FIELD, N, P)                                                                                       \
  void NAME(long members, long steps, double h, const double *p, double *y) {                                       \
    _Pragma("omp parallel for schedule(static)") for (long b = 0; b < members / L; b++) {                            \
      double q[P][L], z[N][L], k[N][L], t[N][L], s[N][L];                                                            \
      for (int l = 0; l < L; l++) {                                                                                  \
        for (int i = 0; i < P; i++) q[i][l] = p[(b * L + l) * P + i];                                                \
        for (int i = 0; i < N; i++) z[i][l] = y[(b * L + l) * N + i];                                                \
      }                                                                                                              \
      for (long n = 0; n < steps; n++) {                                                                             \
        FIELD(z, q, k);                                                                                              \
        for (int i = 0; i < N; i++) for (int l = 0; l < L; l++) { s[i][l] = k[i][l]; t[i][l] = z[i][l] + h / 2 * k[i][l]; } \
        FIELD(t, q, k);                                                                                              \
        for (int i = 0; i < N; i++) for (int l = 0; l < L; l++) { s[i][l] += 2 * k[i][l]; t[i][l] = z[i][l] + h / 2 * k[i][l]; } \
        FIELD(t, q, k);                                                                                              \
        for (int i = 0; i < N; i++) for (int l = 0; l < L; l++) { s[i][l] += 2 * k[i][l]; t[i][l] = z[i][l] + h * k[i][l]; } \
        FIELD(t, q, k);                                                                                              \
        for (int i = 0; i < N; i++) for (int l = 0; l < L; l++) z[i][l] += h / 6 * (s[i][l] + k[i][l]);              \
      }                                                                                                              \
      for (int l = 0; l < L; l++)                                                                                    \
        for (int i = 0; i < N; i++) y[(b * L + l) * N + i] = z[i][l];                                                \
    }                                                                                                                \
  }

RUN(run_sphere, sphere, 14, 5)
