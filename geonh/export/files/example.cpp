// c++ example.cpp robot.o -lm -o example && ./example 1000
#include <array>
#include <cstdio>
#include <cstdlib>
#include "robot.h"

struct Run {
  std::array<double, ROBOT_STATE> state{};
  int status = robot_start(robot_parameters, robot_inputs, robot_times, robot_point, robot_velocity, state.data());

  void advance(int steps) {
    if (status == ROBOT_SUCCESS) status = robot_advance(robot_parameters, robot_inputs, state.data(), steps);
  }

  std::array<double, ROBOT_OBSERVED> observed() const {
    std::array<double, ROBOT_OBSERVED> values{};
    robot_observe(robot_parameters, robot_inputs, state.data(), values.data());
    return values;
  }
};

int main(int argc, char **argv) {
  Run run;
  run.advance(argc > 1 ? std::atoi(argv[1]) : 100);
  for (double value : run.observed()) std::printf("%.17g\n", value);
  return run.status;
}
