/* robot: {{system}} with {{method}},
   for {{triple}}, by geonh {{version}}.

   A run is a vector of doubles, the state: start it, step it, observe it. Nothing is allocated and nothing is kept
   between calls: any number of runs may go on in any threads. A call uses at most {{stack}} kB of stack.
   Called of the C library: {{externals}}. Vectors that are passed to one call may not overlap. */
#ifndef ROBOT_H
#define ROBOT_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Sizes of the vectors. */
#define ROBOT_PARAMETERS {{parameters}}
#define ROBOT_INPUTS {{inputs}} /* controls, held through a step{{late}}; NULL may be passed where there are none */
#define ROBOT_POINT {{point}}
#define ROBOT_VELOCITY {{velocity}}
#define ROBOT_STATE {{state}}
#define ROBOT_OBSERVED {{observed}}

{{places}}
/* Status of a call. */
enum {
  ROBOT_SUCCESS = 0,
{{statuses}}
};

/* Values by default: parameters, inputs, times (of the start, and of a step), and the start: a point and a velocity. */
{{defaults}}

/* Start a run at times[0] with steps of times[1] seconds, both of which the state has from then on.
   ROBOT_START if the velocity is not on the constraints there: see robot_project. */
int robot_start(const double *parameters, const double *inputs, const double *times, const double *point,
                const double *velocity, double *state);

/* Do n steps. If one fails, its status is returned, and the state is the one before it. */
int robot_advance(const double *parameters, const double *inputs, double *state, int32_t n);

/* Do one step. */
static inline int robot_step(const double *parameters, const double *inputs, double *state) {
  return robot_advance(parameters, inputs, state, 1);
}

/* Observe a state: time, point, velocity, momentum, energy, multipliers, residuals, first integrals. */
int robot_observe(const double *parameters, const double *inputs, const double *state, double *observed);

/* Project onto the constraints at times[0]: the nearest point and, in the kinetic metric, the nearest velocity there
   are written one after the other to projected, of ROBOT_POINT + ROBOT_VELOCITY numbers. */
int robot_project(const double *parameters, const double *times, const double *point, const double *velocity,
                  double *projected);

#ifdef __cplusplus
}
#endif
#endif
