// SPDX-License-Identifier: Apache-2.0
// What timing leaves behind, as plain values: the samples of all implementations of one case on one
// grid, taken in turn in one process, and their summaries. Absolute times hold for the machine and
// its load at that moment; ratios of samples of the same round are what can be compared. With its
// JSON and text forms.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace lossgrid {

enum class TimingStatus {
  timed,
  skipped,  // cannot be timed here, with the reason
  error,    // a rank threw
  timeout,  // the deadline passed; a rank hangs
};

std::string_view name(TimingStatus status);

/// One implementation. A sample is forward and backward, of the slowest rank.
struct TimingEntry {
  std::string implementation;
  std::string why_skipped;               // empty: it was timed; else there are no samples
  std::vector<std::int64_t> samples_ns;  // in the order of the rounds
  std::int64_t median_ns = 0;
  std::int64_t p20_ns = 0;
  std::int64_t p80_ns = 0;
  double ratio_to_baseline = 0;        // median over rounds of sample / sample of the baseline
  double useful_flops_per_second = 0;  // TimingRecord::useful_flops in the median time
  std::int64_t own_flops = 0;          // of its matrix products on all ranks, by its cost model
};

/// A case on a grid.
struct TimingRecord {
  std::string case_name;
  std::string case_text;  // what is computed
  std::string grid;       // "tp2cp1"
  std::string baseline;   // one of the implementations
  std::int64_t rounds = 0;
  TimingStatus status = TimingStatus::timed;
  std::string reason;  // one line; empty when timed
  // The work of a problem that starts from hidden states, whoever does it: 6 N H V on all ranks,
  // three times the product of the N tokens with the weight, without padding and recomputation. 0
  // for problems that start from logits.
  double useful_flops = 0;
  std::vector<TimingEntry> entries;  // in the order that was asked for; of a failed run none

  /// "fewer than 10 samples" where the summaries are not worth much, else empty.
  std::string why_unstable() const;
};

/// Keys with their units, fixed order; numbers that do not exist are null.
nlohmann::ordered_json timing_to_json(const TimingRecord& record);

/// One block a record, one row an implementation, a line for each that was skipped and why. Lines
/// end in '\n'; empty when there are no records.
std::string format_timing_table(const std::vector<TimingRecord>& records);

}  // namespace lossgrid
