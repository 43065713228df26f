/* robot as a functional mock-up unit for co-simulation: what both versions of the interface share.
   Variables by value reference: parameters, step, point and velocity of the start, inputs, observed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "robot.h"
#define STEP ROBOT_PARAMETERS
#define POINT (STEP + 1)
#define VELOCITY (POINT + ROBOT_POINT)
#define INPUTS (VELOCITY + ROBOT_VELOCITY)
#define OBSERVED (INPUTS + ROBOT_INPUTS)
#define ALL (OBSERVED + ROBOT_OBSERVED)
#define MOST 1e9 /* steps of one call */

typedef struct {
  double values[ALL], state[ROBOT_STATE], begin;
  int started, known; /* whether the state, and what is observed of it, are up to date */
  int running;        /* whether a step was taken */
  int given;          /* whether a number of the start was set */
  char name[256], message[256];
  void *environment, *logger;
} Instance;

static const char *reason(int status) {
  switch (status) {
{{reasons}}
    default: return "";
  }
}

static void values_by_default(Instance *it) {
  const double *given[5] = {robot_parameters, robot_times + 1, robot_point, robot_velocity, robot_inputs};
  const int places[6] = {0, STEP, POINT, VELOCITY, INPUTS, OBSERVED};
  memset(it->values, 0, sizeof(it->values));
  for (int i = 0; i < 5; i++)
    for (int k = places[i]; k < places[i + 1]; k++) it->values[k] = given[i][k - places[i]];
  it->started = it->known = it->running = it->given = 0;
}

/* Start, if that is due; the status. The start by default is projected where parameters have put it off the
   constraints, always from the same point and velocity, whatever was looked at before. */
static int start(Instance *it) {
  double *v = it->values, times[2] = {it->begin, v[STEP]}, nearest[ROBOT_POINT + ROBOT_VELOCITY];
  int status = 0;
  if (!it->started) {
    if (!it->given) {
      memcpy(v + POINT, robot_point, sizeof(robot_point));
      memcpy(v + VELOCITY, robot_velocity, sizeof(robot_velocity));
    }
    status = robot_start(v, v + INPUTS, times, v + POINT, v + VELOCITY, it->state);
    if (status == ROBOT_START && !it->given && !robot_project(v, times, v + POINT, v + VELOCITY, nearest)) {
      status = robot_start(v, v + INPUTS, times, nearest, nearest + ROBOT_POINT, it->state);
      if (!status) memcpy(v + POINT, nearest, sizeof(nearest));
    }
    if (status) snprintf(it->message, sizeof(it->message), "the start failed: %s", reason(status));
    else it->started = 1;
    it->known = 0;
  }
  return status;
}

/* Value of a variable; nonzero if there is none. */
static int get(Instance *it, unsigned reference, double *value) {
  if (reference >= ALL) return 1;
  if (reference >= POINT && reference < INPUTS && !it->running) start(it);
  if (reference >= OBSERVED && !it->known) {
    if (start(it)) return 1;
    robot_observe(it->values, it->values + INPUTS, it->state, it->values + OBSERVED);
    it->known = 1;
  }
  *value = it->values[reference];
  return 0;
}

/* Inputs are set at any time, parameters and the start before the first step. */
static int set(Instance *it, unsigned reference, double value) {
  if (reference >= OBSERVED || (reference < INPUTS && it->running)) return 1;
  it->values[reference] = value;
  it->known = 0;
  if (reference < INPUTS) it->started = 0;
  if (reference >= POINT && reference < INPUTS) it->given = 1;
  return 0;
}

/* Go on by a time; the status of a step that failed, or -1 if the time is not a whole number of steps. */
static int go_on(Instance *it, double time) {
  double n = time / it->values[STEP], whole = floor(n + 0.5);
  int status = start(it);
  if (status) return status;
  if (!(whole >= 1 && whole <= 0x1p53 && fabs(n - whole) <= 1e-6 + 1e-12 * whole)) {
    snprintf(it->message, sizeof(it->message), "a communication step of %g s is not a whole number of steps of %g s", time,
             it->values[STEP]);
    return -1;
  }
  for (; whole > 0 && !status; whole -= MOST)
    status = robot_advance(it->values, it->values + INPUTS, it->state, (int32_t)fmin(whole, MOST));
  it->known = 0;
  it->running = 1;
  if (status) snprintf(it->message, sizeof(it->message), "a step failed: %s", reason(status));
  return status;
}

static Instance *made(const char *name, const char *token, void *environment, void *logger) {
  Instance *it = strcmp(token, "{{token}}") ? NULL : calloc(1, sizeof(Instance));
  if (!it) return NULL;
  snprintf(it->name, sizeof(it->name), "%s", name);
  it->environment = environment;
  it->logger = logger;
  values_by_default(it);
  return it;
}
