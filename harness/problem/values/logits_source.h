// SPDX-License-Identifier: Apache-2.0
// `LogitsSource`: logits of an unsharded pack, row by row, so that nobody has to hold them all:
// made from random numbers, read from a bundle, or the product of hidden states and a weight
// (projection.h).
// Row t (true token index) predicts token t + 1 of its sequence. Values that are given to
// implementations are those after rounding to the problem's dtype. Thread-safe: const.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "harness/problem/case/case_spec.h"

namespace lossgrid {

/// Interface of all sources.
class LogitsSource {
 public:
  virtual ~LogitsSource() = default;
  /// Reads the logits of vocab ids begin + k of row `token` into out[k]: rounded to the problem's
  /// dtype where they are given, else only to the type of `out`.
  virtual void read(std::int64_t token, std::int64_t begin, std::span<double> out) const = 0;
  virtual void read(std::int64_t token, std::int64_t begin, std::span<float> out) const = 0;
  /// Returns how many rows are read best at once: 1 where each is made on its own.
  virtual std::int64_t rows_at_once() const { return 1; }
  /// Reads the logits of all ids of each of `tokens`, row behind row, with the bits of read().
  virtual void read_rows(std::span<const std::int64_t> tokens, std::span<double> out) const;
  /// True if implementations are given these values; false if they make them, in float32.
  virtual bool given() const { return true; }
  /// Relative part of the error of a logit made in float32; 0 where logits are given. The whole
  /// error of the logit of id begin + k is at most out[k] + relative_error() |logit|, out by
  /// read_errors.
  virtual double relative_error() const { return 0; }
  /// Reads the absolute parts of these errors into `out`; zeros where logits are given.
  virtual void read_errors(std::int64_t token, std::int64_t begin, std::span<double> out) const;
};

/// Returns logits from Philox at (seed, token, vocab id), in the regime of `spec`. `targets` [T]
/// holds the id that each row predicts, -1 for none (regimes that treat the target differently need
/// it). Throws bad_input for denormal in f64.
std::shared_ptr<const LogitsSource> make_random_logits(const CaseSpec& spec,
                                                       std::vector<std::int32_t> targets);

}  // namespace lossgrid
