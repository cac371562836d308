// SPDX-License-Identifier: Apache-2.0
// `FailedLogprobs`: log-probabilities of a rank that are beyond their bounds, and the number of
// them that a known mistake would explain. A mistake is tried on the rows where it would change the
// value.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "harness/verify/checks/row_places.h"
#include "harness/verify/diagnosis/mistake_tally.h"
#include "harness/verify/truth/truth.h"

namespace lossgrid {

struct LogprobMistake {
  std::string_view would_be;  // end of a sentence after "are what they would be "
  std::string_view
      declaration;  // declaration of an external implementation that would allow it; may be empty
};

/// Known mistakes, in the order of FailedLogprobs::mistakes.
inline constexpr std::array<LogprobMistake, 11> kLogprobMistakes{{
    {"if each tp rank's sum of exponentials were taken with its own maximum: the all-reduce of the "
     "maximum over TP is missing?",
     ""},
    {"if the sum of exponentials were that of the own vocabulary shard: its all-reduce over TP is "
     "missing?",
     ""},
    {"if the target's logit were 0 on tp ranks that do not hold it: its all-reduce over TP is "
     "missing?",
     ""},
    {"for the row's own token: labels are not shifted?", ""},
    {"for the token in the rank's next row: labels are shifted after the split?", ""},
    {"for the label of the rank's next row: labels are shifted twice?", ""},
    {"for the label of the rank's previous row: labels are shifted back?", ""},
    {"for another row: rows are in another order?", ""},
    {"if the row predicted nothing: its label is lost?", ""},
    {"with the other sign: negative log-likelihoods?", " returns=\"nll\" would declare it"},
    {"at temperature 1: logits are not divided by the temperature?", ""},
}};

struct FailedLogprobs {
  std::int64_t count = 0;
  std::int64_t not_written = 0;
  std::int64_t positive = 0;
  std::vector<std::int64_t> nan_rows;  // rows of the whole batch, ascending
  // Range of got - want over finite values.
  double smallest_difference = 0;
  double largest_difference = 0;
  std::int64_t differences = 0;
  std::array<MistakeTally, kLogprobMistakes.size()> mistakes{};

  void add(const FailedLogprobs& other);
};

/// Rows whose log-probabilities a rank returned, and the order in which CP ranks hold them.
struct LogprobRows {
  std::span<const RowPlace> places;
  std::vector<std::vector<std::int64_t>> by_cp_rank;  // indices into `places`
  int tp = 1;
  int tp_rank = 0;
};

/// Returns the failed log-probabilities; `got` is by place. Mistakes are tried on the first 64
/// failed rows.
FailedLogprobs look_at_logprobs(const Problem& problem, const Truth& truth, const LogprobRows& rows,
                                std::span<const float> got, int serial_adds);

}  // namespace lossgrid
