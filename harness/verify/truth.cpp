// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/truth.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

namespace lossgrid {

PackedBatch unpadded_batch(const Problem& problem) {
  PackedBatch batch;
  batch.cu_seqlens = problem.cu_seqlens;
  batch.cu_seqlens_padded = problem.cu_seqlens;
  batch.input_ids = problem.input_ids;
  batch.token_mask = problem.token_mask;
  batch.sample_mask = problem.sample_mask;
  batch.denominators = problem.denominators;
  return batch;
}

RowTruth row_truth(std::span<const double> logits, std::int32_t target) {
  RowTruth row;
  row.target = target;
  row.max = *std::max_element(logits.begin(), logits.end());
  double weighted = 0;
  for (std::size_t v = 0; v < logits.size(); ++v) {
    const double e = std::exp(logits[v] - row.max);
    if (static_cast<std::int32_t>(v) != target) row.others += e;
    if (e > 0) weighted += e * (row.max - logits[v]);  // exp(-inf) * inf would be NaN
  }
  row.sum = row.others + std::exp(logits[target] - row.max);
  row.spread = weighted / row.sum;
  row.target_logit = logits[target];
  row.logprob = row.target_logit - row.max - std::log(row.sum);
  return row;
}

Truth compute_truth(const Problem& problem, const Objective& objective, int threads) {
  Truth truth;
  truth.rows.resize(static_cast<std::size_t>(problem.tokens()));
  const std::vector<std::int32_t> targets = problem.row_targets();
  const std::vector<std::uint8_t> valid = problem.row_valid();

  std::atomic<std::int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&] {
    try {
      std::vector<double> logits(static_cast<std::size_t>(problem.spec.vocab));
      for (std::int64_t t = next++; t < problem.tokens(); t = next++) {
        if (targets[t] < 0) continue;
        problem.logits->read(t, 0, std::span<double>(logits));
        truth.rows[t] = row_truth(logits, targets[t]);
        truth.rows[t].valid = valid[t] != 0;
      }
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
  if (failure) std::rethrow_exception(failure);

  std::vector<double> logprobs(truth.rows.size());
  std::transform(truth.rows.begin(), truth.rows.end(), logprobs.begin(),
                 [](const RowTruth& row) { return row.logprob; });
  truth.objective = objective.truth(unpadded_batch(problem), logprobs);
  return truth;
}

void truth_probabilities(const RowTruth& row, std::span<const double> logits, std::span<double> p) {
  for (std::size_t k = 0; k < p.size(); ++k) p[k] = std::exp(logits[k] - row.max) / row.sum;
}

void truth_gradient(const RowTruth& row, double grad_logprob, std::span<const double> p,
                    std::int64_t begin, std::span<double> out) {
  for (std::size_t k = 0; k < out.size(); ++k) out[k] = -grad_logprob * p[k];
  const std::int64_t at = row.target - begin;
  if (at < 0 || at >= static_cast<std::int64_t>(out.size())) return;
  // Written as 1 - p_y it would cancel when the label is certain.
  out[at] = grad_logprob * (row.others / row.sum);
}

}  // namespace lossgrid
