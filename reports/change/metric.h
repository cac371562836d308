// SPDX-License-Identifier: Apache-2.0
// The numbers of a report that a policy may set bounds on, each with what is better and with the
// exit code of what is worse. Pure functions of the record.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/core/error.h"
#include "reports/record/record.h"

namespace lossgrid {

/// Which of two values is better: the lower, the higher, none (any difference is worse).
enum class Direction { lower, higher, equal };

std::string_view name(Direction direction);

/// What a number is of; what does not apply is empty.
struct Subject {
  std::string case_name;
  std::string case_text;
  std::string grid;
  std::string implementation;  // or the name of a mutant
  std::string phase;

  /// "lens=5+8 vocab=96|tp2cp1|fused", without the phase and what is empty.
  std::string text() const;
};

struct Measurement {
  Subject subject;
  std::string place;  // "rank 0", "cp: all_gather", "over per_sequence"
  std::string of;     // id of its trial or row: what stands in BASE too can be compared
  double value = 0;
  double stderr_ratio = 0;  // standard error / value; 0 for what is counted
};

struct ReportMetric {
  std::string name;
  Direction better = Direction::lower;
  ExitCode worse = ExitCode::cost_regression;
  // A trial without one has 0 of it: another collective, another rank.
  bool is_counter = false;
  std::vector<Measurement> (*measurements)(const RunRecord& run) = nullptr;
};

const std::vector<ReportMetric>& metrics();

/// Throws internal: policies are checked before.
const ReportMetric& find_metric(std::string_view name);

/// Whether a trial ended: one that was cut short counted less than it would have.
bool has_counts(TrialStatus status);

Subject subject_of(const TrialRecord& trial);
Subject subject_of(const TimingRecord& timing);
Subject subject_of(const TimingRecord& timing, const TimingRow& row);

}  // namespace lossgrid
