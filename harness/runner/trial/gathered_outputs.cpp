// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/trial/gathered_outputs.h"

#include <algorithm>

#include "harness/runner/rank/weight_gradient.h"

namespace lossgrid {
namespace {

/// Copies the rows of a rank and a microbatch to their places in the whole batch.
class RowPlacement {
 public:
  RowPlacement(const Grid& grid, int rank, const TrialPart& part)
      : problem_(*part.problem),
        truth_(*part.truth),
        from_hidden_(problem_.spec.hidden > 0),
        shard_(vocab_shard(problem_.spec.vocab, grid.tp, grid.tp_rank(rank))) {
    const std::vector<std::int64_t> cu_padded = pack(problem_, grid).cu_seqlens_padded;
    places_ = place_rows(problem_, cu_padded, cp_rows(cu_padded, grid, grid.cp_rank(rank)));
    if (from_hidden_ && grid.sp) {
      gradient_count_ = places_.size() / static_cast<std::size_t>(grid.tp);
      gradient_begin_ = gradient_count_ * static_cast<std::size_t>(grid.tp_rank(rank));
    } else {
      gradient_count_ = places_.size();
    }
  }

  void place(const PackFindings& findings, BundleResults& out) const {
    place_about_tokens(findings.logprobs, out.logprobs);
    // Without statistics an entropy may be there for the loss alone.
    if (!out.entropy.empty()) place_about_tokens(findings.entropy, out.entropy);
    if (findings.row_gradient.empty()) return;
    for (std::size_t k = 0; k < gradient_count_; ++k) {
      const std::int64_t row = places_[gradient_begin_ + k].row;
      if (row >= 0) place_gradient(findings, k, problem_.whole_row(row), out);
    }
  }

 private:
  /// Places values at the token that they are about, behind the row that predicts it.
  void place_about_tokens(const std::vector<double>& of_rows, std::vector<double>& out) const {
    for (std::size_t k = 0; k < of_rows.size(); ++k) {
      const std::int64_t row = places_[k].row;
      if (row < 0 || truth_.rows[row].target < 0) continue;
      out[problem_.whole_row(row) + problem_.ahead()] = of_rows[k];
    }
  }

  void place_gradient(const PackFindings& findings, std::size_t k, std::int64_t row,
                      BundleResults& out) const {
    const std::int64_t stride = from_hidden_ ? problem_.spec.hidden : shard_.width;
    const double* from = findings.row_gradient.data() + static_cast<std::int64_t>(k) * stride;
    if (from_hidden_) {
      std::copy(from, from + stride, out.grad_hidden.begin() + row * stride);
    } else {
      std::copy(from, from + shard_.valid(),
                out.grad_logits.begin() + row * problem_.spec.vocab + shard_.begin);
    }
  }

  const Problem& problem_;
  const Truth& truth_;
  bool from_hidden_;
  VocabShard shard_;
  std::vector<RowPlace> places_;    // [T_c] rows of the CP rank
  std::size_t gradient_begin_ = 0;  // of the rows whose gradient the rank has
  std::size_t gradient_count_ = 0;
};

/// Adds the gradients of this rank's shard of weight and bias, without their initial values.
void add_weight_gradient(const TrialSetup& setup, int rank, const RankResult& result,
                         BundleResults& sum) {
  const Problem& problem = *setup.problem;
  const WeightPlaces places = weight_places(problem.spec, setup.grid, setup.grid.tp_rank(rank));
  std::vector<float> before(static_cast<std::size_t>(places.size));
  for (std::int64_t id = places.shard.begin; id < places.shard.end; ++id) {
    embedding_gradient(problem, id, before);
    for (std::int64_t h = 0; h < places.size; ++h) {
      const std::int64_t at = places.at(id - places.shard.begin, h);
      sum.grad_weight[id * places.size + h] +=
          static_cast<double>(result.weight_gradient[at]) - before[h];
    }
    if (places.has_bias) {
      const std::int64_t at = places.at(id - places.shard.begin, places.size);
      sum.grad_bias[id] += static_cast<double>(result.weight_gradient[at]);
    }
  }
}

}  // namespace

BundleResults gather_outputs(const TrialSetup& setup, const std::vector<RankResult>& ranks) {
  const CaseSpec& spec = setup.problem->spec;
  const std::int64_t tokens = setup.problem->tokens();
  const auto zeros = [](std::int64_t rows, std::int64_t columns) {
    return std::vector<double>(static_cast<std::size_t>(rows * columns), 0.0);
  };
  const Outputs given = setup.implementation->describe().outputs;
  BundleResults out;
  if (given.loss) out.loss = ranks[0].result.loss;
  for (const auto& [name, metric] : ranks[0].result.metrics) {
    if (const auto value = metric.value()) out.metrics[name] = *value;
  }
  if (given.logprobs) out.logprobs = zeros(tokens, 1);
  if (given.entropy && setup.objective->needs().row_statistics) out.entropy = zeros(tokens, 1);
  if (given.gradients && spec.hidden > 0) {
    out.grad_hidden = zeros(tokens, spec.hidden);
    out.grad_weight = zeros(spec.vocab, spec.hidden);
    if (spec.lm_head_bias) out.grad_bias = zeros(spec.vocab, 1);
  } else if (given.gradients) {
    out.grad_logits = zeros(tokens, spec.vocab);
  }
  for (int r = setup.grid.first_of_last_stage(); r < setup.grid.ranks(); ++r) {
    for (std::size_t m = 0; m < setup.microbatches.size(); ++m) {
      const TrialPart& part = setup.microbatches[m].part_of(r);
      if (part.problem->microbatch.dummy) continue;
      RowPlacement(setup.microbatches[m].grid, r, part).place(ranks[r].packs[m], out);
    }
    const bool is_copy = has_vocab_copy(spec.vocab, setup.grid.tp_rank(r));
    if (!out.grad_weight.empty() && !is_copy) add_weight_gradient(setup, r, ranks[r], out);
  }
  return out;
}

}  // namespace lossgrid
