// SPDX-License-Identifier: Apache-2.0
// Metrics: the numbers of a report that a policy may bound, each with the better direction and the
// kind of change that a worse value is. Pure functions of the record.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/core/error.h"
#include "reports/record/column.h"
#include "reports/record/record.h"

namespace lossgrid {

enum class ChangeKind {
  coverage,       // a trial or timed row of BASE that HEAD does not have, or did not run
  verdict,        // of a trial, or a number that measures how wrong results are
  memory,         // peak bytes or allocations of a rank in a phase
  communication,  // calls or payload of an operation of a group in a phase
  time,           // of a row, relative to the reference of its own run
};

std::string_view name(ChangeKind kind);

/// Returns the exit code of a worse number of this kind.
ExitCode exit_code_of(ChangeKind kind);

/// Owner of a number; members that do not apply are empty.
struct Subject {
  std::string case_name = {};
  std::string case_text = {};
  std::string grid = {};
  std::string implementation = {};  // or the name of a mutant
  std::string phase = {};

  /// "lens=5+8 vocab=96|tp2cp1|fused", without the phase and empty members.
  std::string text() const;
};

struct Measurement {
  Subject subject;
  std::string place = {};  // "rank 0", "cp: all_gather", "hot, over per_sequence"
  std::string id = {};     // of its trial or row; numbers of one id, phase and place are compared
  double value = 0;
  double stderr_ratio = 0;  // standard error / value; 0 for counters
};

/// The trials and rows of one report that are measured. Refers to the report.
struct Selection {
  using Row = std::pair<const TimingRecord*, const TimingRow*>;

  std::vector<const TrialRecord*> trials = {};
  std::vector<Row> rows = {};
  MutationScore mutants = {};
};

/// Selects all of `run`: trials that ended, rows with a valid time, mutants.
Selection everything_measured(const RunRecord& run);

struct ReportMetric {
  std::string name;
  Direction better = Direction::lower;
  ChangeKind kind = ChangeKind::verdict;
  std::function<std::vector<Measurement>(const Selection& selection)> measurements = {};

  /// True for exact counts. A trial without one has 0 of it: another collective, another rank.
  bool is_counter() const {
    return kind == ChangeKind::memory || kind == ChangeKind::communication;
  }
};

const std::vector<ReportMetric>& metrics();

/// Throws internal: policies are checked before.
const ReportMetric& find_metric(std::string_view name);

/// True if the trial ended: one that was cut short counted less than it would have.
bool has_counts(TrialStatus status);

/// Returns the id of a timed row: that of its timing, implementation and phase.
std::string row_id(const TimingRecord& timing, const TimingRow& row);

Subject subject_of(const TrialRecord& trial);
Subject subject_of(const TimingRecord& timing);
Subject subject_of(const TimingRecord& timing, const TimingRow& row);

}  // namespace lossgrid
