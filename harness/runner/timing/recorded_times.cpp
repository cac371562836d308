// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/timing/recorded_times.h"

#include <algorithm>
#include <cmath>

#include "harness/loss/loss_problem.h"
#include "harness/loss/registry.h"
#include "harness/planner/model/time_model.h"
#include "harness/problem/batch/problem.h"

namespace lossgrid {
namespace {

std::int64_t rounded_ns(double seconds) {
  return std::llround(1e9 * seconds);
}

/// A pack of a problem on a grid, and the model of its times.
class PredictedPack {
 public:
  PredictedPack(const PreparedProblem& prepared, const Grid& grid, Backend backend,
                const Machine& machine, const std::string& transport)
      : batch_(pack(*prepared.problem, grid)),
        problem_(make_loss_problem(*prepared.problem, batch_, grid, *prepared.objective, backend)),
        model_{machine, machine.transport(transport)},
        valid_share_(valid_share_of(*prepared.problem)) {}

  std::optional<TimePrediction> time_of(const std::string& implementation) const {
    return predict_time(problem_, *make_implementation(implementation), model_, valid_share_);
  }

 private:
  /// Returns the part of the rows that predict a token which are trained on.
  static double valid_share_of(const Problem& problem) {
    double valid = 0;
    for (const std::uint8_t row : problem.row_valid()) valid += row;
    const auto predicting = static_cast<double>(problem.tokens() - problem.sequences());
    return predicting > 0 ? std::min(1.0, valid / predicting) : 0;
  }

  PackedBatch batch_;
  LossProblem problem_;
  TimeModel model_;
  double valid_share_;
};

PhaseTime time_of(const TimePrediction& time, const std::string& phase) {
  if (phase == "forward") return time.forward;
  return phase == "backward" ? time.backward : time.both();
}

}  // namespace

void add_predicted_times(const PreparedProblem& prepared, const Grid& grid, Backend backend,
                         const Machine& machine, TimingRecord& record) {
  if (record.rows.empty()) return;
  const PredictedPack pack(prepared, grid, backend, machine, record.transport);
  for (TimingRow& row : record.rows) {
    const std::optional<TimePrediction> time = pack.time_of(row.implementation);
    if (!time) continue;
    const PhaseTime phase = time_of(*time, row.phase);
    row.predicted = {rounded_ns(phase.seconds()), rounded_ns(phase.collectives), phase.bound_by(),
                     time->busiest.cp_rank};
  }
}

void add_predicted_times(const PreparedProblem& prepared, const Grid& grid, Backend backend,
                         const Machine& machine, TrialRecord& record) {
  const bool one_pack =
      grid.dp == 1 && grid.pp == 1 && record.microbatches == 1 && !grid.is_dynamic();
  if (!one_pack || record.times.empty()) return;
  const PredictedPack pack(prepared, grid, backend, machine, record.transport);
  const std::optional<TimePrediction> time = pack.time_of(record.implementation);
  if (!time) return;
  for (PhaseTimeRecord& measured : record.times) {
    if (measured.phase == "plan") continue;
    measured.predicted_ns = rounded_ns(time_of(*time, measured.phase).seconds());
  }
}

}  // namespace lossgrid
