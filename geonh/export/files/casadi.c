/* Functions of CasADi for robot: casadi_robot_next and casadi_robot_rates, of x = (point, velocity), u, p and times = (t0, dt).
   In Python: casadi.external("casadi_robot_next", "{{library}}"). */
#include <string.h>
#include "robot.h"
#define int_T long long int
#define X (ROBOT_POINT + ROBOT_VELOCITY)
#define ALL (X + ROBOT_INPUTS + ROBOT_PARAMETERS + 2)

int robot_next(const double *x, const double *u, const double *p, const double *times, double *after);
int robot_next_jacobian(const double *x, const double *u, const double *p, const double *times, double *jacobian);
int robot_rates(const double *x, const double *u, const double *p, const double *times, double *rates);
int robot_rates_jacobian(const double *x, const double *u, const double *p, const double *times, double *jacobian);

static const int_T sizes[4] = {X, ROBOT_INPUTS, ROBOT_PARAMETERS, 2};
static const char *const names[4] = {"x", "u", "p", "times"};
static const int_T vectors[4][3] = {{X, 1, 1}, {ROBOT_INPUTS, 1, 1}, {ROBOT_PARAMETERS, 1, 1}, {2, 1, 1}};
static const int_T blocks[4][3] = {{X, X, 1}, {X, ROBOT_INPUTS, 1}, {X, ROBOT_PARAMETERS, 1}, {X, 2, 1}};
static const int_T empty[3] = {X, 1, 1};

/* Arguments one after another; those that are not given are zero. */
static void gather(const double **arg, double *w) {
  for (int i = 0; i < 4; w += sizes[i++]) {
    if (arg[i]) memcpy(w, arg[i], sizes[i] * sizeof(double));
    else memset(w, 0, sizes[i] * sizeof(double));
  }
}

#define FUNCTION(name, called, result)                                                                              \
  int_T name##_n_in(void) { return 4; }                                                                             \
  int_T name##_n_out(void) { return 1; }                                                                            \
  const char *name##_name_in(int_T i) { return names[i]; }                                                          \
  const char *name##_name_out(int_T i) { (void)i; return result; }                                                  \
  const int_T *name##_sparsity_in(int_T i) { return vectors[i]; }                                                   \
  const int_T *name##_sparsity_out(int_T i) { (void)i; return vectors[0]; }                                         \
  int name##_work(int_T *arg, int_T *res, int_T *iw, int_T *w) {                                                    \
    *arg = 4; *res = 1; *iw = 0; *w = ALL + X;                                                                      \
    return 0;                                                                                                       \
  }                                                                                                                 \
  int name(const double **arg, double **res, int_T *iw, double *w, int mem) {                                       \
    double *given = w + X;                                                                                          \
    (void)iw; (void)mem;                                                                                            \
    gather(arg, given);                                                                                             \
    int status = called(given, given + X, given + X + ROBOT_INPUTS, given + ALL - 2, w);                            \
    if (res[0]) memcpy(res[0], w, X * sizeof(double));                                                              \
    return status;                                                                                                  \
  }                                                                                                                 \
  int_T jac_##name##_n_in(void) { return 5; }                                                                       \
  int_T jac_##name##_n_out(void) { return 4; }                                                                      \
  const char *jac_##name##_name_in(int_T i) { return i < 4 ? names[i] : "out_" result; }                            \
  const char *jac_##name##_name_out(int_T i) {                                                                      \
    static const char *const out[4] = {"jac_" result "_x", "jac_" result "_u", "jac_" result "_p", "jac_" result "_times"}; \
    return out[i];                                                                                                  \
  }                                                                                                                 \
  const int_T *jac_##name##_sparsity_in(int_T i) { return i < 4 ? vectors[i] : empty; }                             \
  const int_T *jac_##name##_sparsity_out(int_T i) { return blocks[i]; }                                             \
  int jac_##name##_work(int_T *arg, int_T *res, int_T *iw, int_T *w) {                                              \
    *arg = 5; *res = 4; *iw = 0; *w = ALL + X * ALL;                                                                \
    return 0;                                                                                                       \
  }                                                                                                                 \
  int jac_##name(const double **arg, double **res, int_T *iw, double *w, int mem) {                                 \
    double *given = w + X * ALL;                                                                                    \
    (void)iw; (void)mem;                                                                                            \
    gather(arg, given);                                                                                             \
    int status = called##_jacobian(given, given + X, given + X + ROBOT_INPUTS, given + ALL - 2, w);                 \
    for (int i = 0; i < 4; w += X * sizes[i++])                                                                     \
      if (res[i]) memcpy(res[i], w, X * sizes[i] * sizeof(double));                                                 \
    return status;                                                                                                  \
  }

FUNCTION(casadi_robot_next, robot_next, "next")
FUNCTION(casadi_robot_rates, robot_rates, "rates")
