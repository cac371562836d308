// SPDX-License-Identifier: Apache-2.0
// Predicted time of forward and backward of an implementation on a machine, from its declared costs
// (Cost), for the slowest rank:
//
//   phase = starts + rows + products + memory + exponentials - hidden + cached + collectives
//
//   starts        one for the phase and one for every chunk of rows
//   rows          rows of the rank times the time of a row, which one thread takes; twice where a
//                 phase does both forward and backward
//   products      FLOPs / rate of products
//   memory        bytes that are read / rate of reading + bytes that take the place of others, or
//                 are written to other arrays, with as many read / rate of update or copy
//   exponentials  elements of rows of the vocabulary that kernels go through / their rate
//   hidden        the part of the shorter one of these two that passes while the other does
//   cached        passes over what the last cache still holds (cached_read_bytes): their
//                 exponentials, and their bytes / its rate of reading, after the pass from memory
//   collectives   collective_time.h; they wait for the slowest rank and overlap with nothing
//
// Memory and arithmetic of a row kernel overlap, by prefetch, as far as the machine does it
// (Machine::overlap); products and row kernels take turns. Forward skips rows that predict nothing,
// backward rows without a valid target: both count the rows of the CP rank with the most such rows.
// Ranks that share a device share its rates.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "harness/loss/loss_implementation.h"
#include "harness/planner/model/busiest_rank.h"
#include "harness/planner/model/collective_time.h"
#include "harness/planner/model/machine.h"

namespace lossgrid {

/// Parts of the time of a phase, in seconds.
struct PhaseTime {
  double starts = 0;
  double rows = 0;
  double products = 0;
  double memory = 0;
  double exponentials = 0;
  double hidden = 0;  // time of memory or exponentials hidden by the longer one
  double cached = 0;
  double collectives = 0;

  double seconds() const;
  /// Returns the largest part: "starts", "rows", "products", "memory", "exponentials", "cached",
  /// "collectives".
  const char* bound_by() const;
  PhaseTime& operator+=(const PhaseTime& other);
};

struct PredictedCollective {
  std::string phase;
  std::string group;  // "tp", "cp"
  int ranks = 1;
  Collective operation = Collective::all_reduce;
  CollectiveCount count;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;
  double seconds = 0;  // seconds of all calls
};

struct TimePrediction {
  PhaseTime forward;
  PhaseTime backward;  // empty if the implementation does both in one sweep
  std::vector<PredictedCollective> collectives;
  BusiestRank busiest;

  /// Returns the time of forward followed by backward.
  PhaseTime both() const;
};

/// Machine and carrier of collectives for a prediction. Both must outlive the object.
struct TimeModel {
  const Machine& machine;
  const Transport& transport;
};

/// Returns the time; nullopt for an implementation whose costs have neither bytes nor exponentials
/// nor FLOPs, or that multiplies in its own loops (counts_flops). `valid_share` is the share of
/// trained tokens.
std::optional<TimePrediction> predict_time(const LossProblem& problem,
                                           const LossImplementation& implementation,
                                           const TimeModel& model, double valid_share);

}  // namespace lossgrid
