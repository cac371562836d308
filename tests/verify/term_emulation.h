// SPDX-License-Identifier: Apache-2.0
// Float32 loops over one row whose loss depends on row terms, in the natural order: every sum one
// after the other. Bounds must hold for them; a fault makes them wrong in one way.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "harness/verify/truth/truth.h"

namespace lossgrid {

enum class TermFault {
  none,
  entropy_sign,         // of its gradient
  entropy_of_half,      // H of the first half of the vocabulary
  no_entropy_mean,      // without H in ln p + H
  all_columns_finite,   // V in place of F
  mean_of_finite,       // 1/F in place of 1/V
  no_share,             // without 1/V
  share_of_minus_inf,   // 1/V where logits are -inf too
  no_logsumexp,         // without d L / dz
  logsumexp_of_target,  // d L / dz as that of -lp
};

/// The order in which the terms of an element are added up.
enum class TermOrder { factors_first, term_by_term };

struct EmulatedTerms {
  float logprob = 0, entropy = 0, logsumexp = 0, mean_logprob = 0;
  std::vector<float> gradient;
};

inline EmulatedTerms emulate_terms(const std::vector<float>& x, std::int32_t target,
                                   const RowGradientTruth& weights, TermOrder order,
                                   TermFault fault = TermFault::none) {
  const auto is = [fault](TermFault other) { return fault == other; };
  const auto vocab = static_cast<float>(x.size());
  const float max = *std::max_element(x.begin(), x.end());
  float sum = 0;
  float weighted = 0;
  float distances = 0;
  float finite = 0;
  float half_sum = 0;
  float half_weighted = 0;
  for (std::size_t v = 0; v < x.size(); ++v) {
    if (std::isinf(x[v])) continue;
    const float distance = x[v] - max;
    const float e = std::exp(distance);
    sum += e;
    weighted += e * distance;
    distances += distance;
    finite += 1;
    if (2 * v >= x.size()) continue;
    half_sum += e;
    half_weighted += e * distance;
  }
  const float log_sum = std::log(sum);
  EmulatedTerms out;
  out.logprob = x[static_cast<std::size_t>(target)] - max - log_sum;
  out.entropy = log_sum - weighted / sum;
  out.logsumexp = max + log_sum;
  out.mean_logprob = (distances - finite * log_sum) / vocab;

  const auto g = static_cast<float>(weights.logprob.value);
  const float h = static_cast<float>(weights.terms[RowTerm::entropy].value) *
                  (is(TermFault::entropy_sign) ? -1.0f : 1.0f);
  const float l = is(TermFault::no_logsumexp)
                      ? 0.0f
                      : static_cast<float>(weights.terms[RowTerm::logsumexp].value);
  const auto m = static_cast<float>(weights.terms[RowTerm::mean_logprob].value);
  float entropy = out.entropy;
  if (is(TermFault::entropy_of_half)) entropy = std::log(half_sum) - half_weighted / half_sum;
  if (is(TermFault::no_entropy_mean)) entropy = 0;
  if (is(TermFault::all_columns_finite)) finite = vocab;
  const float share = m / (is(TermFault::mean_of_finite) ? finite : vocab);
  const float factor = l - h * entropy - share * finite;
  float others = 0;
  for (std::size_t v = 0; v < x.size(); ++v) {
    if (static_cast<std::int32_t>(v) != target) others += std::exp(x[v] - max);
  }
  for (std::size_t v = 0; v < x.size(); ++v) {
    const bool is_target = static_cast<std::int32_t>(v) == target;
    const float p = std::exp(x[v] - max) / sum;
    float dz = is_target ? g * (others / sum) : -g * p;
    if (is(TermFault::logsumexp_of_target) && is_target) dz -= l;
    if (!std::isinf(x[v])) {
      const float log_p = x[v] - max - log_sum;
      if (order == TermOrder::factors_first) {
        dz += p * (factor - h * log_p);
      } else {
        dz += l * p;
        dz -= h * p * (log_p + entropy);
        dz -= share * finite * p;
      }
      if (!is(TermFault::no_share)) dz += share;
    } else if (is(TermFault::share_of_minus_inf)) {
      dz += share;
    }
    out.gradient.push_back(dz);
  }
  return out;
}

}  // namespace lossgrid
