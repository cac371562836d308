// SPDX-License-Identifier: Apache-2.0
// Mutants of the fused forward-backward kernel of one_sweep: rows of the pipeline mixed up,
// exponentials relative to another maximum, logits and exponentials read after they were
// overwritten, blocks whose statistics stay local to a TP rank, cases that it refuses.
#include <algorithm>
#include <cmath>
#include <vector>

#include "impls/mutants/host_step.h"
#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

/// Computes the statistics, applies `change` to shifts and sums, then computes the gradient.
template <typename Change>
std::int64_t sweep_with(const LogitsRows& rows, const float* grad, const RowStatistics& out,
                        void* gradient, Change&& change) {
  const std::int64_t owned = rows_statistics(rows, out);
  std::vector<float> shift(out.shift, out.shift + rows.rows);
  std::vector<float> sum(out.sum, out.sum + rows.rows);
  change(shift, sum);
  rows_gradient(rows, {shift.data(), sum.data()}, {grad}, gradient);
  return owned;
}

/// Divides the exponentials of a row by the sum of the row after it.
std::int64_t sum_of_next_row(const LogitsRows& rows, const float* grad, std::span<float>,
                             const RowStatistics& out, void* gradient) {
  return sweep_with(rows, grad, out, gradient, [](auto& /*shift*/, auto& sum) {
    if (sum.size() > 1) std::rotate(sum.begin(), sum.begin() + 1, sum.end());
  });
}

/// Has one row of scratch for two rows in turn, and reads the exponentials of the first when those
/// of the second have replaced them.
std::int64_t scratch_of_second_row(const LogitsRows& rows, const float* grad,
                                   std::span<float> scratch, const RowStatistics& out,
                                   void* gradient) {
  const std::int64_t owned = rows_forward_backward(rows, grad, scratch, out, gradient);
  const auto row_bytes = static_cast<std::size_t>(rows.shard.width) * size_of(rows.dtype);
  for (std::int64_t r = 0; r + 1 < rows.rows; r += 2) {
    if (rows.targets[r + 1] < 0) continue;
    LogitsRows second = rows.slice(r + 1, 1);
    second.targets = rows.targets.from(r);
    rows_gradient(second, {out.shift + r + 1, out.sum + r}, {grad + r},
                  static_cast<std::byte*>(gradient) + static_cast<std::size_t>(r) * row_bytes);
  }
  return owned;
}

/// Leaves the exponentials of the first block relative to the running maximum that the row began
/// with; the sum is relative to the last one.
std::int64_t first_block_not_rescaled(const LogitsRows& rows, const float* grad,
                                      std::span<float> scratch, const RowStatistics& out,
                                      void* gradient) {
  constexpr std::int64_t kFirst = 64;
  constexpr std::int64_t kBlock = 1024;
  const std::int64_t columns = rows.shard.valid();
  std::vector<float> first(static_cast<std::size_t>(rows.rows), 0.0f);
  dispatch_floating(rows.dtype, [&](auto zero) {
    const auto* data = static_cast<const decltype(zero)*>(rows.data);
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      if (rows.targets[r] < 0) continue;
      const auto* x = data + r * rows.shard.width;
      first[r] = static_cast<float>(x[0]);
      for (std::int64_t v = 1; v < std::min(columns, kFirst); ++v) {
        first[r] = std::max(first[r], static_cast<float>(x[v]));
      }
    }
  });
  const std::int64_t owned = rows_forward_backward(rows, grad, scratch, out, gradient);
  dispatch_floating(rows.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      if (grad[r] == 0 || std::isinf(first[r])) continue;
      const float factor = std::exp(std::min(80.0f, out.shift[r] - first[r]));
      T* row = static_cast<T*>(gradient) + r * rows.shard.width;
      for (std::int64_t v = 0; v < std::min(columns, kBlock); ++v) {
        if (v != rows.targets[r]) row[v] = T(factor * static_cast<float>(row[v]));
      }
    }
  });
  return owned;
}

/// Reads the logit of the target after the gradient has been written over it.
std::int64_t target_read_too_late(const LogitsRows& rows, const float* grad,
                                  std::span<float> scratch, const RowStatistics& out,
                                  void* gradient) {
  const std::int64_t owned = rows_forward_backward(rows, grad, scratch, out, gradient);
  dispatch_floating(rows.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      if (grad[r] == 0 || !rows.shard.owns(rows.targets[r])) continue;
      T& at = static_cast<T*>(gradient)[r * rows.shard.width + rows.targets[r] - rows.shard.begin];
      const float p = std::exp(static_cast<float>(at) - out.shift[r]) / out.sum[r];
      at = T(grad[r] * (1.0f - p));
    }
  });
  return owned;
}

/// Gathers, then gives every rank its own statistics only.
void nothing_gathered(Communicator& tp, std::int64_t /*rows*/, std::span<const float> own,
                      std::span<float> received) {
  tp.all_gather(own, received);
  for (std::size_t begin = 0; begin < received.size(); begin += own.size()) {
    std::copy(own.begin(), own.end(), received.begin() + static_cast<std::ptrdiff_t>(begin));
  }
}

/// Makes the gradient of a block with the statistics of its first row.
void statistics_of_first_row(const LogitsRows& rows, const RowSoftmax& softmax,
                             const RowGradients& gradients, void* out) {
  const std::vector<float> shift(static_cast<std::size_t>(rows.rows), softmax.shift[0]);
  const std::vector<float> sum(static_cast<std::size_t>(rows.rows), softmax.sum[0]);
  RowSoftmax first = softmax;
  first.shift = shift.data();
  first.sum = sum.data();
  rows_gradient(rows, first, gradients, out);
}

/// Refuses every objective with sums over sequences, also one whose gradient does not depend on
/// them.
std::optional<SkipReason> refuses_sequence_sums(const LossProblem& problem) {
  if (problem.objective.sizes().sequence_sums == 0) return std::nullopt;
  return SkipReason{
      "the gradient of a token depends on sums over its sequence: one sweep comes too early"};
}

const RegisteredMutant sweep_mutants[] = {
    RegisteredMutant({
        .name = "sweep_sum_of_next_row",
        .what = "a row is divided by the sum of the next one",
        .strategy = "one_sweep",
        .change = [](Steps& s) { s.forward_backward = sweep_on_host<sum_of_next_row>; },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .name = "sweep_scratch_of_second_row",
        .what =
            "the exponentials of the first of two rows are read after the second took their place",
        .strategy = "one_sweep",
        .change = [](Steps& s) { s.forward_backward = sweep_on_host<scratch_of_second_row>; },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .name = "sweep_first_block_not_rescaled",
        .what = "exponentials of the first block keep the shift that the row began with",
        .strategy = "one_sweep",
        .change = [](Steps& s) { s.forward_backward = sweep_on_host<first_block_not_rescaled>; },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .name = "sweep_target_read_too_late",
        .what = "the logit of the target is read after the gradient took its place",
        .strategy = "one_sweep",
        .change = [](Steps& s) { s.forward_backward = sweep_on_host<target_read_too_late>; },
        .options = {{"in_place", "true"}},
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .name = "sweep_statistics_not_gathered",
        .what = "statistics of a block stay local to a TP rank",
        .strategy = "one_sweep",
        .change = [](Steps& s) { s.gather_statistics = nothing_gathered; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .name = "sweep_statistics_of_first_row",
        .what = "a block's gradient is made with the statistics of its first row",
        .strategy = "one_sweep",
        .change = [](Steps& s) { s.gradient = gradient_on_host<statistics_of_first_row>; },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .name = "refuses_linear_objectives",
        .what = "refuses objectives that need no sums over sequences, as if they did",
        .strategy = "one_sweep",
        .unsupported = refuses_sequence_sums,
        .rejected_by = "skipped",
    }),
};

}  // namespace
}  // namespace lossgrid
