// SPDX-License-Identifier: Apache-2.0
// A plain implementation for problems that start from hidden states: one loop after the other, in
// float32, every sum in order. Bounds must hold for it; an option off its default makes it wrong in
// one way.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "harness/loss/registry.h"
#include "harness/problem/batch/objective_inputs.h"
#include "harness/verify/checks/linear_checks.h"
#include "statistics_outputs.h"

namespace lossgrid {

struct LinearCase {
  Problem problem;
  std::unique_ptr<Objective> objective;
  std::vector<RowTruth> rows;
  Truth truth;
  std::vector<RowPlace> places;  // all rows of the unpadded batch

  std::int64_t vocab() const { return problem.spec.vocab; }
  std::int64_t size() const { return problem.spec.hidden; }
  std::int64_t factors() const { return problem.projection->factors(); }
};

/// Makes a case with a serial add chain as long as the vocabulary, without statistics of a step.
inline LinearCase make_linear_case(const std::string& text) {
  LinearCase c{make_problem(parse_case(text)), nullptr, {}, {}, {}};
  c.objective = make_objective(c.problem.spec.objective, false);
  c.rows = compute_rows(c.problem, 1);
  std::vector<double> logprobs;
  for (const RowTruth& row : c.rows) logprobs.push_back(row.logprob);
  draw_objective_inputs(c.problem, c.objective->needs(), c.objective->input_draw().get(), logprobs);
  c.truth = make_truth(c.problem, c.rows, *c.objective, static_cast<int>(c.vocab()));
  std::vector<std::int64_t> positions(static_cast<std::size_t>(c.problem.tokens()));
  std::iota(positions.begin(), positions.end(), 0);
  c.places = place_rows(c.problem, c.problem.cu_seqlens, positions);
  return c;
}

struct EmulationOptions {
  std::int64_t chunks = 1;      // of rows, added to the gradient of the weight one by one
  float scale = 1;              // of the gradients
  bool weight_in_bf16 = false;  // the gradient of the weight is rounded after every chunk
  bool dz_in_bf16 = true;       // the gradient of logits is rounded, in a problem in bf16
  std::int64_t drop_begin = 0;  // ids without a gradient of their logits
  std::int64_t drop_end = 0;
  float before = 0;  // contents of the gradient of the weight before
};

struct EmulatedOutputs {
  std::vector<float> logprobs, entropy, vocab_min, vocab_max;  // [T]
  std::vector<float> hidden;                                   // [T, H] as rounded to the dtype
  std::vector<double> weight;                                  // [V, factors]

  TokenOutputs tokens() {
    std::span<float> columns[] = {logprobs, entropy, vocab_min, vocab_max};
    return statistics_outputs(columns);
  }
};

class Emulation {
 public:
  Emulation(const LinearCase& c, const EmulationOptions& options)
      : c_(c), options_(options), projection_(*c.problem.projection) {}

  EmulatedOutputs run() {
    const std::int64_t tokens = c_.problem.tokens();
    const std::int64_t elements = c_.vocab() * c_.factors();
    for (auto* column : {&out_.logprobs, &out_.entropy, &out_.vocab_min, &out_.vocab_max}) {
      column->assign(static_cast<std::size_t>(tokens), 0.0f);
    }
    out_.hidden.assign(static_cast<std::size_t>(tokens * c_.size()), 0.0f);
    weight_.assign(static_cast<std::size_t>(elements), options_.before);
    for (std::int64_t chunk = 0; chunk < options_.chunks; ++chunk) {
      std::vector<float> sums(static_cast<std::size_t>(elements), 0.0f);
      const std::int64_t end = tokens * (chunk + 1) / options_.chunks;
      for (std::int64_t t = tokens * chunk / options_.chunks; t < end; ++t) add_row(t, sums);
      for (std::size_t k = 0; k < sums.size(); ++k) {
        weight_[k] += sums[k] * factor();
        if (options_.weight_in_bf16) weight_[k] = static_cast<float>(bf16(weight_[k]));
      }
    }
    out_.weight.assign(weight_.begin(), weight_.end());
    return std::move(out_);
  }

 private:
  /// Returns the factor of every product with a gradient of logits.
  float factor() const { return static_cast<float>(1 / projection_.temperature); }

  void add_row(std::int64_t t, std::vector<float>& weight_sums) {
    const RowTruth& row = c_.rows[t];
    if (row.target < 0) return;
    const float* x = projection_.hidden_row(t);
    std::vector<float> z(static_cast<std::size_t>(c_.vocab()), 0.0f);
    for (std::int64_t v = 0; v < c_.vocab(); ++v) {
      for (std::int64_t k = 0; k < c_.factors(); ++k) z[v] += x[k] * projection_.weight_row(v)[k];
      z[v] *= factor();
    }
    const float max = *std::max_element(z.begin(), z.end());
    float sum = 0;
    float weighted = 0;
    for (const float logit : z) {
      sum += std::exp(logit - max);
      weighted += std::exp(logit - max) * (logit - max);
    }
    out_.logprobs[t] = z[row.target] - max - std::log(sum);
    out_.entropy[t] = std::log(sum) - weighted / sum;
    out_.vocab_min[t] = *std::min_element(z.begin(), z.end());
    out_.vocab_max[t] = max;
    if (!row.valid) return;

    const float g = static_cast<float>(c_.truth.objective.grad_logprob[t].value) * options_.scale;
    std::vector<float> dz(z.size());
    float others = 0;  // written as 1 - p_y it would cancel when the label is certain
    for (std::size_t v = 0; v < z.size(); ++v) {
      dz[v] = -g * (std::exp(z[v] - max) / sum);
      if (static_cast<std::int32_t>(v) != row.target) others += std::exp(z[v] - max);
    }
    dz[row.target] = g * (others / sum);
    for (std::int64_t v = options_.drop_begin; v < options_.drop_end; ++v) dz[v] = 0;
    add_products(t, dz, weight_sums);
  }

  void add_products(std::int64_t t, std::vector<float>& dz, std::vector<float>& weight_sums) {
    const bool rounds = c_.problem.spec.dtype == DType::bf16;
    const bool rounds_dz = rounds && options_.dz_in_bf16;
    const float* x = projection_.hidden_row(t);
    float* hidden = out_.hidden.data() + t * c_.size();
    for (std::int64_t v = 0; v < c_.vocab(); ++v) {
      if (rounds_dz) dz[v] = static_cast<float>(bf16(dz[v]));
      const float* w = projection_.weight_row(v);
      for (std::int64_t k = 0; k < c_.size(); ++k) hidden[k] += dz[v] * w[k];
      for (std::int64_t k = 0; k < c_.factors(); ++k) {
        weight_sums[v * c_.factors() + k] += dz[v] * x[k];
      }
    }
    for (std::int64_t k = 0; k < c_.size(); ++k) {
      hidden[k] *= factor();
      if (rounds) hidden[k] = static_cast<float>(bf16(hidden[k]));
    }
  }

  const LinearCase& c_;
  EmulationOptions options_;
  const Projection& projection_;
  EmulatedOutputs out_;
  std::vector<float> weight_;
};

inline EmulatedOutputs emulate(const LinearCase& c, const EmulationOptions& options = {}) {
  return Emulation(c, options).run();
}

/// Returns values in the dtype of the problem.
inline LinearFindings judge_hidden(const LinearCase& c, const std::vector<float>& got) {
  const DType dtype = c.problem.spec.dtype;
  if (dtype == DType::f32) {
    return check_grad_hidden(c.problem, c.truth, c.places, got.data(), dtype, 0);
  }
  std::vector<bf16> stored;
  for (const float value : got) stored.emplace_back(value);
  return check_grad_hidden(c.problem, c.truth, c.places, stored.data(), dtype, 0);
}

inline LinearFindings judge_weight(const LinearCase& c, const EmulatedOutputs& got,
                                   const EmulationOptions& options = {}) {
  const std::vector<double> before(got.weight.size(), static_cast<double>(options.before));
  return check_grad_weight(c.problem, c.truth, vocab_shard(c.vocab(), 1, 0), got.weight, before,
                           {c.problem.spec.dtype, options.chunks}, 0);
}

/// Judges the last column of a case that has a bias.
inline LinearFindings judge_bias(const LinearCase& c, const EmulatedOutputs& got,
                                 const EmulationOptions& options = {}) {
  const std::vector<double> before(got.weight.size(), static_cast<double>(options.before));
  return check_grad_bias(c.problem, c.truth, vocab_shard(c.vocab(), 1, 0), got.weight, before,
                         {c.problem.spec.dtype, options.chunks}, 0);
}

}  // namespace lossgrid
