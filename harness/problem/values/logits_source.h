// SPDX-License-Identifier: Apache-2.0
// Logits of an unsharded pack, row by row, without ever holding them all: made from random numbers,
// read from a bundle, or the product of hidden states and a weight (projection.h). Row t (true
// token index) predicts token t + 1 of its sequence. Values that are given are those after rounding
// to the problem's dtype. Thread-safe: const.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "harness/problem/case/case_spec.h"

namespace lossgrid {

class LogitsSource {
 public:
  virtual ~LogitsSource() = default;
  /// out[k] := logit of vocab id begin + k of row `token`: as it reads in the dtype where it is
  /// given, else not rounded but to the type of `out`.
  virtual void read(std::int64_t token, std::int64_t begin, std::span<double> out) const = 0;
  virtual void read(std::int64_t token, std::int64_t begin, std::span<float> out) const = 0;
  /// True when implementations are given these values; false when they make them, in float32.
  virtual bool given() const { return true; }
  /// How far a logit may be from its value when it is made in float32, only where it is not given:
  /// the one of id begin + k by out[k] + relative_error() |logit|.
  virtual double relative_error() const { return 0; }
  virtual void read_errors(std::int64_t token, std::int64_t begin, std::span<double> out) const;
};

/// Values from Philox at (seed, token, vocab id), in the regime of `spec`. `targets` [T] holds the
/// id that each row predicts, -1 for none (regimes that treat the target differently need it).
/// Throws bad_input for denormal in f64.
std::shared_ptr<const LogitsSource> make_random_logits(const CaseSpec& spec,
                                                       std::vector<std::int32_t> targets);

}  // namespace lossgrid
