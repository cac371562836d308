// SPDX-License-Identifier: Apache-2.0
// reference: the truth as an implementation. Gathers all logits over TP and CP, then computes in
// float64, one sequence and one row at a time, straight from the formulas:
//   lp_t = x_y - log sum_v exp(x_v),   H_t = log sum_v exp(x_v) - sum_v p_v x_v,
//   d L / d x_v = (d L / d lp_t) ([v = y] - p_v).
// The plainest code here: it shares no step with the other strategies and finds its rows by the
// inverse formula of the zigzag split (position -> rank and slot).
#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/core/error.h"
#include "harness/loss/registry.h"

namespace lossgrid {
namespace {

class ReferencePlan final : public LossPlan {
 public:
  ReferencePlan(const LossProblem& problem, RankContext context)
      : problem_(problem),
        context_(context),
        over_tp_(context.device.allocate(problem.grid.tp > 1 ? tp_bytes(problem) : 0,
                                         "logits_gathered")),
        over_cp_(context.device.allocate(problem.grid.cp > 1 ? all_bytes(problem) : 0,
                                         "logits_gathered")),
        rows_(context.device, static_cast<std::size_t>(problem.rows()), "rows"),
        row_(context.device, static_cast<std::size_t>(problem.vocab), "row") {}

  static std::size_t tp_bytes(const LossProblem& problem) {
    return static_cast<std::size_t>(problem.shard_bytes() * problem.grid.tp);
  }
  static std::size_t all_bytes(const LossProblem& problem) {
    return tp_bytes(problem) * static_cast<std::size_t>(problem.grid.cp);
  }

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    gather(inputs);
    const PackedBatch& batch = problem_.batch;
    std::fill(rows_.begin(), rows_.end(), TokenTruth());
    outputs.owned_labels = 0;
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      for (std::int64_t t = 0; t + 1 < batch.length(i); ++t) {
        read_row(i, t);
        rows_[batch.cu_seqlens_padded[i] + t] =
            about_row(batch.input_ids[batch.cu_seqlens[i] + t + 1]);
        outputs.owned_labels += is_trained_on(i, t + 1) ? 1 : 0;
      }
    }
    // Every rank saw everything; the first one accounts for the labels.
    if (context_.tp.rank() != 0 || context_.cp.rank() != 0) outputs.owned_labels = 0;
    truth_ = problem_.objective.truth(batch, {rows_.data(), rows_.size()});
    outputs.result.loss = truth_.loss.value;
    outputs.result.metrics.clear();
    for (const auto& [name, metric] : truth_.metrics) {
      outputs.result.metrics[name] = {metric.reduction, metric.amount.value, metric.count};
    }
    write_outputs(outputs.tokens);
  }

  void backward(const LossInputs& /*inputs*/, LossGradients& gradients) override {
    dispatch_floating(problem_.dtype, [&](auto zero) {
      write_gradient(static_cast<decltype(zero)*>(gradients.logits));
    });
  }

 private:
  void gather(const LossInputs& inputs) {
    all_ = inputs.logits;
    auto elements = static_cast<std::size_t>(problem_.local_rows() * problem_.width());
    if (problem_.grid.tp > 1) {
      context_.tp.all_gather(all_, over_tp_.data(), elements, problem_.dtype);
      all_ = over_tp_.data();
      elements *= static_cast<std::size_t>(problem_.grid.tp);
    }
    if (problem_.grid.cp > 1) {
      context_.cp.all_gather(all_, over_cp_.data(), elements, problem_.dtype);
      all_ = over_cp_.data();
    }
  }

  bool is_trained_on(std::int64_t i, std::int64_t t) const {
    return problem_.batch.token_mask[problem_.batch.cu_seqlens[i] + t] != 0 &&
           problem_.batch.sample_mask[i] != 0;
  }

  struct Place {
    std::int64_t cp_rank;
    std::int64_t slot;  // among that rank's rows
  };

  /// Where row `t` of sequence `i` lives: q = t div h; rank q or 2 cp - 1 - q; second half of the
  /// rank's rows of the sequence when q >= cp.
  Place place_of(std::int64_t i, std::int64_t t) const {
    const std::int64_t cp = problem_.grid.cp;
    const std::int64_t start = problem_.batch.cu_seqlens_padded[i] / cp;
    if (cp == 1) return {0, start + t};
    const std::int64_t h = problem_.batch.padded_length(i) / (2 * cp);
    const std::int64_t q = t / h;
    return {q < cp ? q : 2 * cp - 1 - q, start + (q < cp ? 0 : h) + t % h};
  }

  /// row_ := all V logits of row t of sequence i.
  void read_row(std::int64_t i, std::int64_t t) {
    const Place place = place_of(i, t);
    const std::int64_t width = problem_.width();
    dispatch_floating(problem_.dtype, [&](auto zero) {
      const auto* logits = static_cast<const decltype(zero)*>(all_);
      for (std::int64_t v = 0; v < problem_.vocab; ++v) {
        const std::int64_t shard = place.cp_rank * problem_.grid.tp + v / width;
        row_[v] = static_cast<double>(
            logits[(shard * problem_.local_rows() + place.slot) * width + v % width]);
      }
    });
  }

  /// Of the row in row_, exact numbers.
  TokenTruth about_row(std::int32_t target) const {
    const double lse = log_sum_exp();
    double mean = 0;
    double smallest = std::numeric_limits<double>::infinity();
    for (const double x : row_) {
      const double p = std::exp(x - lse);
      if (p > 0) mean += p * x;
      if (!std::isinf(x)) smallest = std::min(smallest, x);
    }
    return {row_[target] - lse, lse - mean, smallest, *std::max_element(row_.begin(), row_.end())};
  }

  void write_outputs(const TokenOutputs& out) const {
    for (std::size_t k = 0; k < rows_.size(); ++k) {
      out.logprobs[k] = static_cast<float>(rows_[k].logprob.value);
      if (!problem_.row_statistics()) continue;
      out.entropy[k] = static_cast<float>(rows_[k].entropy.value);
      out.vocab_min[k] = static_cast<float>(rows_[k].vocab_min.value);
      out.vocab_max[k] = static_cast<float>(rows_[k].vocab_max.value);
    }
  }

  double log_sum_exp() const {
    const double max = *std::max_element(row_.begin(), row_.end());
    double sum = 0;
    for (const double x : row_) sum += std::exp(x - max);
    return max + std::log(sum);
  }

  template <typename T>
  void write_gradient(T* out) {
    const PackedBatch& batch = problem_.batch;
    const std::int64_t width = problem_.width();
    std::fill_n(out, problem_.local_rows() * width, T(0));
    const std::int64_t begin = context_.tp.rank() * width;
    const std::int64_t end = std::min(problem_.vocab, begin + width);
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      for (std::int64_t t = 0; t + 1 < batch.length(i); ++t) {
        const Place place = place_of(i, t);
        if (place.cp_rank != context_.cp.rank() || !is_trained_on(i, t + 1)) continue;
        const std::int32_t target = batch.input_ids[batch.cu_seqlens[i] + t + 1];
        const double grad = truth_.grad_logprob[batch.cu_seqlens_padded[i] + t].value;
        read_row(i, t);
        const double lse = log_sum_exp();
        for (std::int64_t v = begin; v < end; ++v) {
          const double p = std::exp(row_[v] - lse);
          const double value = grad * ((v == target ? 1.0 : 0.0) - p);
          out[place.slot * width + v - begin] = static_cast<T>(value);
        }
      }
    }
  }

  const LossProblem& problem_;
  RankContext context_;
  Buffer over_tp_;
  Buffer over_cp_;
  DeviceArray<TokenTruth> rows_;
  DeviceArray<double> row_;
  const void* all_ = nullptr;  // [cp][tp][T_c][V_t]
  ObjectiveTruth truth_;
};

class Reference final : public LossImplementation {
 public:
  Description describe() const override {
    return {"reference", "float64, unsharded, one sequence at a time: gathers everything",
            LogprobScope::pack, 0};
  }

  Cost cost(const LossProblem& problem) const override {
    Cost cost;
    const std::int64_t over_tp = problem.shard_bytes() * problem.grid.tp;
    cost.plan.workspace_bytes = (problem.grid.tp > 1 ? over_tp : 0) +
                                (problem.grid.cp > 1 ? over_tp * problem.grid.cp : 0) +
                                static_cast<std::int64_t>(sizeof(TokenTruth)) * problem.rows() +
                                8 * problem.vocab;
    cost.forward.workspace_bytes = cost.backward.workspace_bytes = cost.plan.workspace_bytes;
    if (problem.grid.tp > 1) {
      cost.forward.tp.add(Collective::all_gather, 1, problem.shard_bytes());
    }
    if (problem.grid.cp > 1) cost.forward.cp.add(Collective::all_gather, 1, over_tp);
    return cost;
  }

  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<ReferencePlan>(problem, context);
  }
};

const Registered registered{[] {
  ImplementationEntry entry;
  entry.name = "reference";
  entry.make = [](const ImplementationOptions& options) -> std::unique_ptr<LossImplementation> {
    require_known_options(options, {}, "reference");
    return std::make_unique<Reference>();
  };
  return entry;
}()};

}  // namespace
}  // namespace lossgrid
