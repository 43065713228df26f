// Nanoseconds of Pinocchio's articulated-body algorithm on a robot, in a loop: the least of some rounds.
// Arguments: a model as Model.saveToText writes it, number of evaluations, number of rounds. See test_accelerations.py.
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/joint-configuration.hpp>
#include <pinocchio/multibody.hpp>
#include <pinocchio/serialization.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  pinocchio::Model model;
  model.loadFromText(argv[1]);
  pinocchio::Data data(model);
  const long n = std::atol(argv[2]);
  const int rounds = std::atoi(argv[3]);
  std::srand(1);
  Eigen::VectorXd v = Eigen::VectorXd::Random(model.nv), tau = Eigen::VectorXd::Random(model.nv);
  const Eigen::VectorXd q = pinocchio::integrate(model, pinocchio::neutral(model), v);
  double best = std::numeric_limits<double>::infinity(), sum = 0.0;
  for (int round = 0; round < rounds; ++round) {
    const auto begun = std::chrono::steady_clock::now();
    for (long i = 0; i < n; ++i) {
      v[0] += 1e-12;
      sum += pinocchio::aba(model, data, q, v, tau, pinocchio::Convention::LOCAL)[0];
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
    best = std::min(best, seconds.count() / n);
  }
  std::printf("%.1f %d %g\n", best * 1e9, model.nv, sum);
}
