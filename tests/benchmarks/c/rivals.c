/* RK4 for many members, eight at a time in vectors, blocks over threads: gcc -O3 -march=native -ffast-math -fopenmp.
   y[members][N], p[members][P], a multiple of eight members. The equations of rivals.py are the functions of FIELDS,
   one lane of f from one of y and p. */
#include <math.h>
#define L 8
#define FIELD(NAME, N, P) \
  static inline __attribute__((always_inline)) void NAME(const double (*y)[L], const double (*p)[L], double (*f)[L])
#include FIELDS

#define RUN(NAME, N, P)                                                                                              \
  void run_##NAME(long members, long steps, double h, const double *p, double *y) {                                  \
    _Pragma("omp parallel for schedule(static)") for (long b = 0; b < members / L; b++) {                            \
      double q[P][L], z[N][L], k[N][L], t[N][L], s[N][L];                                                            \
      for (int l = 0; l < L; l++) {                                                                                  \
        for (int i = 0; i < P; i++) q[i][l] = p[(b * L + l) * P + i];                                                \
        for (int i = 0; i < N; i++) z[i][l] = y[(b * L + l) * N + i];                                                \
      }                                                                                                              \
      for (long n = 0; n < steps; n++) {                                                                             \
        const double at[4] = {0, h / 2, h / 2, h}, weight[4] = {1, 2, 2, 1};                                         \
        for (int i = 0; i < N; i++) for (int l = 0; l < L; l++) k[i][l] = s[i][l] = 0;                               \
        for (int stage = 0; stage < 4; stage++) {                                                                    \
          for (int i = 0; i < N; i++) for (int l = 0; l < L; l++) t[i][l] = z[i][l] + at[stage] * k[i][l];           \
          NAME(t, q, k);                                                                                             \
          for (int i = 0; i < N; i++) for (int l = 0; l < L; l++) s[i][l] += weight[stage] * k[i][l];                \
        }                                                                                                            \
        for (int i = 0; i < N; i++) for (int l = 0; l < L; l++) z[i][l] += h / 6 * s[i][l];                          \
      }                                                                                                              \
      for (int l = 0; l < L; l++)                                                                                    \
        for (int i = 0; i < N; i++) y[(b * L + l) * N + i] = z[i][l];                                                \
    }                                                                                                                \
  }

RUNS
