// SPDX-License-Identifier: Apache-2.0
// Controls: right computations that differ in the last bits, by other summation orders and other
// forms of the exponential, as GPU kernels use them, and by other forms of a formula. A criterion
// that rejects one of them is wrong.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "harness/device/kernel/portable.h"
#include "impls/mutants/host_step.h"
#include "impls/mutants/mutant.h"
#include "impls/mutants/row_formulas.h"
#include "impls/objectives/distill/divergence_formulas.h"

namespace lossgrid {
namespace {

/// Runs Steps::statistics for rows without transforms and mask on the mapped logits.
template <auto kStep>
std::int64_t of_mapped(const LogitsRows& rows, const RowStatistics& out) {
  if (rows.transforms == nullptr && rows.kept == nullptr) return kStep(rows, out);
  return kStep(transformed_rows(rows).rows(), out);
}

/// Computes statistics with out.sum[r] = sum(terms), the terms being exp(x - maximum) by column.
template <typename Sum>
std::int64_t with_sums(const LogitsRows& rows, const RowStatistics& out, Sum&& sum) {
  const std::int64_t owned = rows_statistics(rows, out);
  std::vector<float> terms(static_cast<std::size_t>(rows.shard.valid()));
  dispatch_floating(rows.dtype, [&](auto zero) {
    const auto* data = static_cast<const decltype(zero)*>(rows.data);
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      if (rows.targets[r] < 0 || out.sum[r] == 0) continue;
      const auto* x = data + r * rows.shard.width;
      for (std::size_t v = 0; v < terms.size(); ++v) {
        terms[v] = std::exp(distance_to_shift(static_cast<double>(x[v]), out.shift[r]));
      }
      out.sum[r] = sum(std::span<const float>(terms));
    }
  });
  return owned;
}

template <float (*kSum)(std::span<const float>)>
std::int64_t with_sum(const LogitsRows& rows, const RowStatistics& out) {
  return with_sums(rows, out, kSum);
}

float pairwise(std::span<const float> terms) {
  if (terms.size() <= 2)
    return terms.empty() ? 0 : terms.front() + (terms.size() == 2 ? terms[1] : 0);
  const std::size_t half = terms.size() / 2;
  return pairwise(terms.first(half)) + pairwise(terms.subspan(half));
}

/// Adds every 256th term in lane k, then the lanes pairwise, as a thread block does.
float lanes_256(std::span<const float> terms) {
  std::vector<float> lanes(256, 0.0f);
  for (std::size_t v = 0; v < terms.size(); ++v) lanes[v % lanes.size()] += terms[v];
  return pairwise(lanes);
}

float backwards_in_double(std::span<const float> terms) {
  return static_cast<float>(std::accumulate(terms.rbegin(), terms.rend(), 0.0));
}

/// Returns a logit without rounding: the distance of two float64 logits is rounded, not each.
double as_number(double logit) {
  return logit;
}
float as_number(float logit) {
  return logit;
}
float as_number(bf16 logit) {
  return static_cast<float>(logit);
}

/// Online softmax over blocks of 512 with a maximum of their own, rescaled as the running maximum
/// grows (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).
std::int64_t online_blocks(const LogitsRows& rows, const RowStatistics& out) {
  const std::int64_t owned = rows_statistics(rows, out);
  constexpr std::int64_t kBlock = 512;
  dispatch_floating(rows.dtype, [&](auto zero) {
    const auto* data = static_cast<const decltype(zero)*>(rows.data);
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      if (rows.targets[r] < 0) continue;
      const auto* x = data + r * rows.shard.width;
      using Number = decltype(as_number(zero));
      Number running = -std::numeric_limits<Number>::infinity();
      float sum = 0;
      for (std::int64_t begin = 0; begin < rows.shard.valid(); begin += kBlock) {
        const std::int64_t end = std::min(rows.shard.valid(), begin + kBlock);
        Number block_max = running;
        for (std::int64_t v = begin; v < end; ++v) {
          block_max = std::max(block_max, as_number(x[v]));
        }
        if (std::isinf(block_max)) continue;  // nothing but -inf so far
        std::vector<float> terms;
        for (std::int64_t v = begin; v < end; ++v) {
          terms.push_back(std::exp(static_cast<float>(as_number(x[v]) - block_max)));
        }
        sum = sum * std::exp(static_cast<float>(running - block_max)) + pairwise(terms);
        running = block_max;
      }
      out.sum[r] =
          std::isinf(running)
              ? 0.0f
              : sum * std::exp(distance_to_shift(static_cast<double>(running), out.shift[r]));
    }
  });
  return owned;
}

/// exp2(fma(x, log2 e, -shift log2 e) - rest), where `rest` is what the product of the shift lost
/// by its rounding: without it the sum would be off in proportion to the shift.
std::int64_t exp2_fma(const LogitsRows& rows, const RowStatistics& out) {
  const std::int64_t owned = rows_statistics(rows, out);
  constexpr float kLog2e = 1.44269504f;
  constexpr float kLargest = 0x1p28f;  // beyond it float64 logits are read as float32
  dispatch_floating(rows.dtype, [&](auto zero) {
    const auto* data = static_cast<const decltype(zero)*>(rows.data);
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      if (rows.targets[r] < 0 || std::abs(out.shift[r]) > kLargest) continue;
      const auto* x = data + r * rows.shard.width;
      using Number = decltype(as_number(zero));
      const Number shift = out.shift[r] * Number{kLog2e};
      const Number rest = std::fma(Number{out.shift[r]}, Number{kLog2e}, -shift);
      std::vector<float> terms;
      for (std::int64_t v = 0; v < rows.shard.valid(); ++v) {
        const Number power = std::fma(as_number(x[v]), Number{kLog2e}, -shift) - rest;
        terms.push_back(std::exp2(static_cast<float>(power)));
      }
      out.sum[r] = pairwise(terms);
    }
  });
  return owned;
}

/// Computes p = exp(x - lse) from a saved float32 log-sum-exp, without a division.
void saved_lse(const LogitsRows& rows, const RowSoftmax& softmax, const RowGradients& gradients,
               void* out) {
  std::vector<float> lse(static_cast<std::size_t>(rows.rows));
  std::vector<float> one(lse.size(), 1.0f);
  std::vector<float> minus_entropy(softmax.weighted != nullptr ? lse.size() : 0);
  for (std::size_t r = 0; r < lse.size(); ++r) {
    const float log_sum = std::log(softmax.sum[r]);
    lse[r] = softmax.shift[r] + log_sum;
    // sum of p (x - lse)
    if (softmax.weighted != nullptr) {
      minus_entropy[r] = softmax.weighted[r] / softmax.sum[r] - log_sum;
    }
  }
  RowSoftmax saved = softmax;
  saved.shift = lse.data();
  saved.sum = one.data();
  saved.weighted = minus_entropy.empty() ? nullptr : minus_entropy.data();
  rows_gradient(rows, saved, gradients, out);
}

/// Computes the gradient of the entropy as -p (d - sum p d), d = z - maximum, without ln p.
void entropy_by_distances(const LogitsRows& rows, const RowSoftmax& softmax,
                          const RowGradients& gradients, void* out) {
  gradient_by(rows, softmax, gradients, out, [&](std::int64_t r) {
    RowGradients others = gradients;
    others.terms[RowTerm::entropy] = nullptr;
    RowCoefficients row = row_coefficients(softmax, others, rows.vocab, r);
    row.b += gradients.terms[RowTerm::entropy][r] * (softmax.weighted[r] / softmax.sum[r]);
    row.c = -gradients.terms[RowTerm::entropy][r];
    return [row](const PlainColumn& column) { return dz_of(row, column, column.distance); };
  });
}

/// Divides logits by T / s, and the slope too, in the place of a product with s / T.
template <typename Float>
Float divided_logit(const RowTransform& row, Float x) {
  const Float divisor = 1 / row.factor;
  if (row.limit == 0) return x / divisor;
  return std::isinf(x) ? x : row.limit * std::tanh(x / (row.limit * divisor));
}

MappedRows divided_rows(const LogitsRows& rows) {
  return MappedRows(
      rows, [&rows](std::int64_t r, auto x) { return divided_logit(rows.transforms[r], x); });
}

std::int64_t statistics_of_divided(const LogitsRows& rows, const RowStatistics& out) {
  return rows_statistics(divided_rows(rows).rows(), out);
}

void gradient_of_divided(const LogitsRows& rows, const RowSoftmax& softmax,
                         const RowGradients& gradients, void* out) {
  gradient_through(rows, divided_rows(rows), softmax, gradients, out,
                   [&](std::int64_t r, double z) { return slope_of(rows, r, z); });
}

void divergence_by_columns(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                           const DivergenceSums& out) {
  divergence_by(rows, p, q, out, [&](const DistilledColumn& column) {
    return right_terms(rows.divergence, column);
  });
}

void gradient_by_columns(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                         const float* of_student, const float* gradient, void* out) {
  divergence_gradient_by(rows, p, q, gradient, out,
                         [&](std::int64_t r, const DistilledColumn& column) {
                           return right_slope(rows.divergence, column, of_student[r]);
                         });
}

const RegisteredControl controls[] = {
    RegisteredControl({
        .name = "pairwise_sum",
        .what = "pairwise float32 sum",
        .strategy = "fused",
        .change =
            [](Steps& s) {
              s.statistics = statistics_on_host<of_mapped<with_sum<pairwise>>>;
              s.serial_adds = 20;
            },
    }),
    RegisteredControl({
        .name = "lanes_256_sum",
        .what = "256 float32 lanes, then a tree",
        .strategy = "cp_local",
        .change =
            [](Steps& s) {
              s.statistics = statistics_on_host<of_mapped<with_sum<lanes_256>>>;
              s.serial_adds = 65536 / 256 + 8;  // of the largest vocabulary of suite ci
            },
    }),
    RegisteredControl({
        .name = "double_sum",
        .what = "float64 sum, last term first",
        .strategy = "fused",
        .change =
            [](Steps& s) {
              s.statistics = statistics_on_host<of_mapped<with_sum<backwards_in_double>>>;
            },
    }),
    RegisteredControl({
        .name = "online_blocks_sum",
        .what = "online softmax over blocks of 512",
        .strategy = "fused",
        .change =
            [](Steps& s) {
              s.statistics = statistics_on_host<of_mapped<online_blocks>>;
              s.serial_adds = 65536 / 512 + 9;
            },
    }),
    RegisteredControl({
        .name = "exp2_fma_sum",
        .what = "exp2 of a fused multiply-add",
        .strategy = "cp_local",
        .change =
            [](Steps& s) {
              s.statistics = statistics_on_host<of_mapped<exp2_fma>>;
              s.serial_adds = 20;
            },
    }),
    RegisteredControl({
        .name = "saved_lse_gradient",
        .what = "probabilities from a saved log-sum-exp",
        .strategy = "fused",
        .change = [](Steps& s) { s.gradient = gradient_on_host<saved_lse>; },
        .declare = [](ImplementationTraits& traits) { traits.rounds_log_sum_exp = true; },
    }),
    RegisteredControl({
        .name = "entropy_gradient_by_distances",
        .what = "the gradient of the entropy from distances to the maximum, without ln p",
        .strategy = "fused",
        .change = [](Steps& s) { s.gradient = gradient_on_host<entropy_by_distances>; },
        .runs_on = [](const LossProblem& problem) { return problem.terms().has(RowTerm::entropy); },
    }),
    RegisteredControl({
        .name = "divided_by_temperature",
        .what = "logits divided by the temperature, not multiplied by a factor",
        .strategy = "cp_local",
        .change =
            [](Steps& s) {
              s.statistics = statistics_on_host<statistics_of_divided>;
              s.gradient = gradient_on_host<gradient_of_divided>;
            },
        .runs_on =
            [](const LossProblem& problem) {
              return !problem.row_transform().is_identity() && !problem.has_teacher();
            },
    }),
    RegisteredControl({
        .name = "divergence_by_columns",
        .what = "divergences column by column, with the logarithm of jsd's mixture, float64 sums",
        .strategy = "fused",
        .change =
            [](Steps& s) {
              s.divergence = divergence_on_host<divergence_by_columns>;
              s.gradient = divergence_gradient_on_host<gradient_by_columns>;
            },
        .runs_on =
            [](const LossProblem& problem) {
              return distills(problem) && !problem.terms().divergence.takes_logprobs();
            },
    }),
};

}  // namespace
}  // namespace lossgrid
