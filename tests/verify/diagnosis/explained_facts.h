// SPDX-License-Identifier: Apache-2.0
// Facts about failed trials, for tests of their explanation.
#pragma once

#include <limits>
#include <utility>
#include <vector>

#include "harness/verify/diagnosis/diagnosis.h"

namespace lossgrid {

inline constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

/// Makes a part whose truth is 1, 2 .. 12, each times `scale`. All wrong elements have failed.
inline GradientPart part_of(const PartPlace& place, double scale, std::int64_t trained_rows = 0) {
  GradientPart part{place, {}, {}, trained_rows};
  for (int k = 1; k <= 12; ++k) {
    const double want = k * (1 + 1e-4);  // no number of bfloat16
    const double got = scale * want;
    part.sums.add_element(DType::f32, got, want, want, 0, 0);
    if (scale != 1) part.failed.add(got, want, got, DType::f32);
  }
  return part;
}

inline FailureFacts facts_of(std::vector<GradientPart> parts, const TrialSizes& sizes = {}) {
  FailureFacts facts;
  facts.sizes = sizes;
  GradientFacts gradient{"grad_logits", true, true};
  for (const GradientPart& part : parts) gradient.sums.add(part.sums);
  gradient.parts = std::move(parts);
  facts.gradients.push_back(std::move(gradient));
  return facts;
}

inline DeclaredWords external(bool returns_loss = false) {
  DeclaredWords declared;
  declared.is_external = true;
  declared.returns_loss = returns_loss;
  return declared;
}

inline TrialSizes sizes_of(std::int64_t dp, std::int64_t cp, std::int64_t n_mb,
                           std::int64_t tp = 1) {
  TrialSizes sizes;
  sizes.scale = {dp, cp, n_mb};
  sizes.tp = tp;
  return sizes;
}

inline FailureFacts with_logprobs(const FailedLogprobs& failed) {
  FailureFacts facts;
  facts.logprobs = {{{}, failed}};
  return facts;
}

}  // namespace lossgrid
