// SPDX-License-Identifier: Apache-2.0
// An objective: from per-token log-probabilities to a scalar loss, its metrics and
// d loss / d logprob. It runs where the data is, on the rows that a rank holds or on a whole pack,
// and never knows how its log-probabilities were sharded. One call handles an array of tokens.
//
// Beside the objective stands its truth: the same formula in plain float64 on the whole batch,
// written independently, from which checks and bounds are taken.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/problem/packed_batch.h"

namespace lossgrid {

/// Rows of a pack as arrays of the same length, in any order and any part of the pack.
struct ObjectiveTokens {
  std::span<const float> logprobs;
  std::span<const std::uint8_t> valid;     // 1: trained on; other log-probabilities may be anything
  std::span<const std::int32_t> sequence;  // of the pack
};

using Metrics = std::map<std::string, std::optional<double>>;  // nullopt: of an empty set

struct ObjectiveResult {
  double loss = 0;
  Metrics metrics;
};

/// The float64 truth of one metric and how it moves with each row's log-probability.
struct MetricTruth {
  std::optional<double> value;
  std::vector<double> d_logprob;  // [T_pad] by row; empty for what does not depend on them (exact)
};

struct ObjectiveTruth {
  double loss = 0;
  std::vector<double> grad_logprob;  // [T_pad] by row
  std::map<std::string, MetricTruth> metrics;
};

class Objective {
 public:
  virtual ~Objective() = default;

  virtual std::string_view kind() const = 0;

  /// How many scalar sums `token_terms` adds to.
  virtual int partial_sums() const = 0;

  /// Adds the terms of `tokens` to `partials` [partial_sums()] and writes
  /// grad_logprobs[t] := d loss / d logprob (0 where not valid; invalid entries are selected away,
  /// never multiplied). Adding up over any partition of the pack gives the whole.
  virtual void token_terms(const ObjectiveTokens& tokens, const PackedBatch& batch,
                           std::span<double> partials, std::span<float> grad_logprobs) const = 0;

  /// Loss and metrics from the partial sums of the whole pack.
  virtual ObjectiveResult finish(const PackedBatch& batch,
                                 std::span<const double> partials) const = 0;

  /// The same in plain float64, from the formula and not from the code above. `logprobs` [T_pad] by
  /// row of the padded pack: log p of the token that the row predicts; rows that predict nothing
  /// are not read.
  virtual ObjectiveTruth truth(const PackedBatch& batch,
                               std::span<const double> logprobs) const = 0;
};

using ObjectiveOptions = std::map<std::string, std::string>;  // values as JSON text

struct ObjectiveEntry {
  std::string kind;
  std::string summary;
  /// Throws bad_input for an unknown option or a bad value.
  std::function<std::unique_ptr<Objective>(const ObjectiveOptions&)> make;
};

}  // namespace lossgrid
