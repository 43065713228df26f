/* Steps to measure the library against: no libraries, every node (k, g, p+, p-) kept in a buffer.

   A program is one system: PARAMETERS, START and ROW (how many numbers), and run(), which steps LANES members side by
   side. LANES = 1 is the plain step on doubles; with LANES = 4 or 8 the same text is vectors, of gcc's extension, and
   with -ffast-math -fopenmp-simd its sines are those of libmvec.

     program steps repeats members < numbers       numbers: h, the parameters, and each member's start

   prints ns per member and step, the least and the mean of all repeats, then the last row of each member. A start is g, the momentum
   that leaves node 0, and where Newton's method begins. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef LANES
#define LANES 1
#endif

#if LANES == 1
typedef double V;
static inline V sine(V a) { return sin(a); }
static inline V cosine(V a) { return cos(a); }
static inline V arctangent(V a) { return atan(a); }
static inline V constant(double a) { return a; }
static inline int any_above(V a, V b) { return !(a <= b); }
#define LANE(v, w) (*(v))
#else
typedef double V __attribute__((vector_size(8 * LANES)));
#define BY_LANES(name, function)                              \
  static inline V name(V a) {                                 \
    double x[LANES] __attribute__((aligned(8 * LANES))), y[LANES] __attribute__((aligned(8 * LANES))); \
    memcpy(x, &a, sizeof a);                                  \
    _Pragma("omp simd") for (int w = 0; w < LANES; w++) y[w] = function(x[w]); \
    memcpy(&a, y, sizeof a);                                  \
    return a;                                                 \
  }
BY_LANES(sine, sin)
BY_LANES(cosine, cos)
BY_LANES(arctangent, atan)
static inline V constant(double a) { return (V){0} + a; }
static inline int any_above(V a, V b) {
  __typeof__(a > b) above = a > b;
  long long any = 0;
  for (int w = 0; w < LANES; w++) any |= above[w];
  return any != 0;
}
#define LANE(v, w) ((*(v))[w])
#endif

/* x with Ax = b for n = 3, by cofactors: one division. b becomes x. */
static inline void solve3(V A[3][3], V b[3]) {
  V c0 = A[1][1] * A[2][2] - A[1][2] * A[2][1], c1 = A[1][2] * A[2][0] - A[1][0] * A[2][2],
    c2 = A[1][0] * A[2][1] - A[1][1] * A[2][0];
  V d = 1.0 / (A[0][0] * c0 + A[0][1] * c1 + A[0][2] * c2), x = b[0], y = b[1], z = b[2];
  b[0] = d * (c0 * x + (A[0][2] * A[2][1] - A[0][1] * A[2][2]) * y + (A[0][1] * A[1][2] - A[0][2] * A[1][1]) * z);
  b[1] = d * (c1 * x + (A[0][0] * A[2][2] - A[0][2] * A[2][0]) * y + (A[0][2] * A[1][0] - A[0][0] * A[1][2]) * z);
  b[2] = d * (c2 * x + (A[0][1] * A[2][0] - A[0][0] * A[2][1]) * y + (A[0][0] * A[1][1] - A[0][1] * A[1][0]) * z);
}

/* z - step; whether another correction is needed, by the library's rule: convergence is quadratic, so a correction of
   relative size 1e-8 was the last. h sets what counts as zero. */
static inline int corrected(V z[3], const V step[3], double h) {
  for (int i = 0; i < 3; i++) z[i] -= step[i];
  V size = z[0] * z[0] + z[1] * z[1] + z[2] * z[2] + 1e-10 * h * h;
  return any_above(step[0] * step[0] + step[1] * step[1] + step[2] * step[2], 1e-16 * size);
}

/* Loops of known length, unrolled early, so that small arrays are registers. */
#define EACH(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < n; i++)

#define MAX_ITERATIONS 30
