/* cc example.c robot.o -lm -o example && ./example 1000 */
#include <stdio.h>
#include <stdlib.h>
#include "robot.h"

int main(int argc, char **argv) {
  double state[ROBOT_STATE], observed[ROBOT_OBSERVED];
  int steps = argc > 1 ? atoi(argv[1]) : 100;
  int status = robot_start(robot_parameters, robot_inputs, robot_times, robot_point, robot_velocity, state);
  for (int k = 0; k < steps && status == ROBOT_SUCCESS; k++)
    status = robot_step(robot_parameters, robot_inputs, state);
  robot_observe(robot_parameters, robot_inputs, state, observed);
  for (int i = 0; i < ROBOT_OBSERVED; i++) printf("%.17g\n", observed[i]);
  return status;
}
