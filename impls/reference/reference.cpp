// SPDX-License-Identifier: Apache-2.0
// reference: the truth as an implementation. Gathers all logits, or hidden states and weight, over
// TP and CP, then computes in float64, one sequence and one row at a time, straight from the
// formulas. Each rank computes a part of the rows, from the logits of all ids, for all ranks.
//   lp_t = x_y - lse_t,   lse_t = log sum_v exp(x_v),   H_t = - sum_v p_v ln p_v,
//   M_t = (1 / V) sum_v ln p_v over the logits that are not -inf,
//   d L / d x_v = (d L / d lp_t) ([v = y] - p_v) - (d L / d H_t) p_v (ln p_v + H_t)
//                 + (d L / d lse_t) p_v + (d L / d M_t) (1 - F p_v) / V,
// F the number of these logits and 0 in all others, times the slope of a transform of the logits.
// Transformed logits outside of a row's kept set are -inf; a target there that is trained on has
// lp_t = 0, and d L / d lp_t counts as 0. Every logit is first taken relative to the maximum,
// because logits of 1e30 would absorb everything else. The plainest code here: it shares no step
// with the other strategies and finds its rows by the inverse formulas of the CP layouts (position
// -> rank and slot).
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/process/heap_watch.h"
#include "harness/loss/registry.h"
#include "impls/reference/reference_divergence.h"
#include "impls/reference/reference_inputs.h"
#include "impls/reference/reference_mask.h"
#include "impls/reference/reference_teacher.h"

namespace lossgrid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class ReferencePlan final : public LossPlan {
 public:
  ReferencePlan(const LossProblem& problem, RankContext context)
      : problem_(problem),
        context_(context),
        inputs_(make_reference_inputs(problem, context)),
        own_rows_(context.device, static_cast<std::size_t>(own_rows(problem)), "rows"),
        tp_rows_(context.device, static_cast<std::size_t>(own_rows(problem) * problem.grid.tp),
                 "rows"),
        rows_(context.device, static_cast<std::size_t>(all_rows(problem)), "rows"),
        row_(context.device, static_cast<std::size_t>(problem.vocab), "row"),
        teacher_row_(context.device, teacher_numbers(problem), "row") {
    if (problem.sampling.has_mask) mask_.emplace(problem, context);
    if (!problem.has_teacher()) return;
    teacher_.emplace(problem, context);
  }

  static std::size_t teacher_numbers(const LossProblem& problem) {
    return problem.has_teacher() ? static_cast<std::size_t>(problem.vocab) : 0;
  }

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    inputs_->gather(inputs);
    if (teacher_) teacher_->gather(inputs);
    if (mask_) mask_->gather(inputs);
    const PackedBatch& batch = problem_.batch;
    compute_own_rows();
    share_rows();
    const bool is_first = context_.tp.rank() == 0 && context_.cp.rank() == 0;
    outputs.owned_labels = is_first ? labels() : 0;
    {
      const HeapWatchScope unwatched(
          nullptr);  // the tape has a few numbers per token, in plain code
      std::vector<TokenTruth> tokens;
      for (std::int64_t row = 0; row < problem_.rows(); ++row) tokens.push_back(rows_[row].outputs);
      truth_ = problem_.objective.truth(batch, tokens);
    }
    outputs.result.loss = truth_.loss.value;
    outputs.result.metrics.clear();
    for (const auto& [name, metric] : truth_.metrics) {
      if (metric.is_derived) continue;
      outputs.result.metrics[name] = {metric.reduction, metric.amount.value, metric.count};
    }
    write_outputs(outputs.tokens);
  }

  void backward(const LossInputs& /*inputs*/, LossGradients& gradients) override {
    const PackedBatch& batch = problem_.batch;
    inputs_->begin_gradient(gradients);
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      for (std::int64_t t = 0; t + batch.ahead < batch.length(i); ++t) {
        const Place place = row_place(i, t);
        if (place.cp_rank != context_.cp.rank() || !is_trained_on(i, t + batch.ahead)) continue;
        const std::int32_t target = batch.input_ids[batch.cu_seqlens[i] + t + batch.ahead];
        read_row(i, t);
        RowGradientTruth gradient = truth_.gradient(batch.cu_seqlens_padded[i] + t);
        if (is_filtered(target)) gradient.logprob = 0;
        write_gradient(rows_[batch.cu_seqlens_padded[i] + t], gradient, target,
                       sequence_transform(i));
        inputs_->add_gradient(place.slot, {row_.data(), row_.size()});
      }
    }
    inputs_->end_gradient();
  }

 private:
  /// log sum_v exp(x_v) = max + log_sum, with the large part separate.
  struct LogSumExp {
    double max;
    double log_sum;
    double logprob(double x) const { return (x - max) - log_sum; }
  };

  /// Outputs of a row, and the other numbers that its gradient is made of.
  struct Row {
    TokenTruth outputs;
    LogSumExp log_sum_exp = {0, 0};
    double finite = 0;  // the number of logits that are not -inf
  };

 public:
  /// Returns the rows that one rank computes: of the pack in their order, the last ranks may have
  /// fewer.
  static std::int64_t own_rows(const LossProblem& problem) {
    const std::int64_t ranks = problem.grid.tp * problem.grid.cp;
    return (problem.rows() + ranks - 1) / ranks;
  }
  static std::int64_t all_rows(const LossProblem& problem) {
    return own_rows(problem) * problem.grid.tp * problem.grid.cp;
  }

  static void add_rows_cost(const LossProblem& problem, Cost& cost) {
    const auto bytes = own_rows(problem) * static_cast<std::int64_t>(sizeof(Row));
    const std::int64_t tp = problem.grid.tp;
    cost.plan.workspace_bytes += bytes * (1 + tp + tp * problem.grid.cp);
    if (tp > 1) cost.forward.tp.add(Collective::all_gather, 1, bytes);
    if (problem.grid.cp > 1) cost.forward.cp.add(Collective::all_gather, 1, bytes * tp);
  }

 private:
  /// Computes this rank's part of the rows of the pack.
  void compute_own_rows() {
    const PackedBatch& batch = problem_.batch;
    const std::int64_t count = own_rows(problem_);
    const std::int64_t begin = (context_.cp.rank() * problem_.grid.tp + context_.tp.rank()) * count;
    std::fill(own_rows_.begin(), own_rows_.end(), Row());
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      for (std::int64_t t = 0; t + batch.ahead < batch.length(i); ++t) {
        const std::int64_t row = batch.cu_seqlens_padded[i] + t - begin;
        if (row < 0 || row >= count) continue;
        read_row(i, t);
        own_rows_[row] = about_row(batch.input_ids[batch.cu_seqlens[i] + t + batch.ahead]);
      }
    }
  }

  /// Brings the parts of all ranks together: those of the TP ranks of a CP rank stand side by side.
  /// Collective.
  void share_rows() {
    gather_rows(context_.tp, own_rows_, tp_rows_);
    gather_rows(context_.cp, tp_rows_, rows_);
  }

  void gather_rows(Communicator& group, DeviceArray<Row>& part, DeviceArray<Row>& all) const {
    if (group.size() == 1) {
      std::copy(part.begin(), part.end(), all.begin());
    } else {
      group.all_gather(part.data(), all.data(), part.size() * sizeof(Row), DType::u8);
    }
  }

  std::int64_t labels() const {
    const PackedBatch& batch = problem_.batch;
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      for (std::int64_t t = batch.ahead; t < batch.length(i); ++t)
        count += is_trained_on(i, t) ? 1 : 0;
    }
    return count;
  }

  bool is_trained_on(std::int64_t i, std::int64_t t) const {
    return problem_.batch.token_mask[problem_.batch.cu_seqlens[i] + t] != 0 &&
           problem_.batch.sample_mask[i] != 0;
  }

  struct Place {
    std::int64_t cp_rank;
    std::int64_t slot;  // index among the rank's rows
  };

  /// Returns rank and slot of row `t` of sequence `i`. Cut in n cp chunks of h, element o is in
  /// chunk q = o div h, of round q div cp; a round that turns begins with the last rank. The
  /// elements of a rank begin at `start`, those of its chunk h times the round behind.
  Place row_place(std::int64_t i, std::int64_t t) const {
    const std::int64_t cp = problem_.grid.cp;
    const std::int64_t begin = problem_.batch.cu_seqlens_padded[i];
    if (cp == 1) return {0, begin + t};
    const CpLayoutRules& layout = rules_of(problem_.grid.cp_layout);
    const bool by_sequence = layout.cuts_sequences;
    const std::int64_t o = by_sequence ? t : begin + t;
    const std::int64_t start = by_sequence ? begin / cp : 0;
    const std::int64_t length =
        by_sequence ? problem_.batch.padded_length(i) : problem_.batch.padded_tokens();
    const std::int64_t h = length / (layout.rounds * cp);
    const std::int64_t q = o / h;
    const bool is_backwards = layout.turns && (q / cp) % 2 != 0;
    return {is_backwards ? cp - 1 - q % cp : q % cp, start + q / cp * h + o % h};
  }

  /// Sets row_ to all V logits of row t of sequence i.
  void read_row(std::int64_t i, std::int64_t t) {
    const Place place = row_place(i, t);
    inputs_->read_row(place.cp_rank, place.slot, {row_.data(), row_.size()});
    const TrueRowTransform of_sequence = sequence_transform(i);
    for (double& x : row_) x = of_sequence.apply(x);
    for (std::int64_t v = 0; mask_ && v < problem_.vocab; ++v) {
      if (!mask_->keeps(place.cp_rank, place.slot, v)) row_[v] = -kInfinity;
    }
    if (!teacher_) return;
    teacher_->read_row(place.cp_rank, place.slot, {teacher_row_.data(), teacher_row_.size()});
    const LogitTransform& transform = problem_.teacher.transform;
    const TrueRowTransform of_teacher =
        row_transform(transform, transform.by_sequence ? temperature(i) : 1);
    for (double& x : teacher_row_) x = of_teacher.apply(x);
  }

  /// True if `target` is outside of the kept set of the row in row_ and therefore has the
  /// log-probability 0.
  bool is_filtered(std::int32_t target) const {
    return problem_.sampling.zeroes_targets && row_[target] == -kInfinity;
  }

  /// Returns the map of sequence i from logits to logits of the softmax.
  TrueRowTransform sequence_transform(std::int64_t i) const {
    return row_transform(problem_.row_transform(), temperature(i));
  }

  double temperature(std::int64_t i) const {
    const std::vector<float>& own = problem_.batch.temperatures;
    return own.empty() ? 1.0 : own[static_cast<std::size_t>(i)];
  }

  LogSumExp log_sum_exp() const {
    const double max = *std::max_element(row_.begin(), row_.end());
    double sum = 0;
    for (const double x : row_) sum += std::exp(x - max);
    return {max, std::log(sum)};
  }

  /// Returns the numbers of the row in row_, outputs as exact numbers.
  Row about_row(std::int32_t target) const {
    const LogSumExp lse = log_sum_exp();
    double smallest = kInfinity;
    double sum_logprob = 0;
    const bool has_sum_p2 = problem_.returns(RowTerm::sum_p2);  // an exponential for each logit
    double sum_p2 = 0;
    double sum_logit = 0;
    double finite = 0;
    for (const double x : row_) {
      if (std::isinf(x)) continue;
      smallest = std::min(smallest, x);
      sum_logprob += lse.logprob(x);
      if (has_sum_p2) sum_p2 += std::exp(2 * lse.logprob(x));
      sum_logit += x;
      finite += 1;
    }
    TokenTruth row{is_filtered(target) ? 0 : lse.logprob(row_[target])};
    row.terms[RowTerm::entropy] = entropy(lse);
    row.terms[RowTerm::logsumexp] = lse.max + lse.log_sum;
    row.terms[RowTerm::mean_logprob] = sum_logprob / vocab();
    row.terms[RowTerm::divergence] = divergence();
    row.terms[RowTerm::vocab_min] = smallest;
    row.terms[RowTerm::vocab_max] = lse.max;
    row.terms[RowTerm::sum_p2] = sum_p2;
    // The first of equal largest logits, as in torch.argmax.
    const bool is_top = std::max_element(row_.begin(), row_.end()) - row_.begin() == target;
    row.terms[RowTerm::top1] = is_top ? 1.0 : 0.0;
    row.terms[RowTerm::mean_logit] = sum_logit / finite;
    return {row, lse, finite};
  }

  double entropy(const LogSumExp& lse) const {
    double entropy = 0;
    for (const double x : row_) {
      const double p = std::exp(lse.logprob(x));
      if (p > 0) entropy -= p * lse.logprob(x);
    }
    return entropy;
  }

  double divergence() const {
    if (!teacher_) return 0;
    const HeapWatchScope unwatched(nullptr);  // rows in plain code
    return plain_divergence(problem_.terms().divergence, {row_.data(), row_.size()},
                            {teacher_row_.data(), teacher_row_.size()});
  }

  double vocab() const { return static_cast<double>(problem_.vocab); }

  /// Writes the gradient of the row in row_ in place of its transformed logits, for the ids that
  /// the rank has a gradient of.
  void write_gradient(const Row& row, const RowGradientTruth& grad, std::int32_t target,
                      const TrueRowTransform& transform) {
    const HeapWatchScope unwatched(nullptr);  // rows in plain code
    std::vector<double> of_divergence(row_.size(), 0.0);
    if (teacher_) {
      add_plain_divergence_gradient(problem_.terms().divergence, {row_.data(), row_.size()},
                                    {teacher_row_.data(), teacher_row_.size()},
                                    grad.terms[RowTerm::divergence].value, of_divergence);
    }
    const double h = row.outputs.terms[RowTerm::entropy].value;
    const IdRange ids = inputs_->gradient_ids();
    for (std::int64_t v = ids.begin; v < ids.end; ++v) {
      const double logprob = row.log_sum_exp.logprob(row_[v]);
      const double p = std::exp(logprob);
      double sum = grad.logprob.value * ((v == target ? 1.0 : 0.0) - p);
      if (!std::isinf(row_[v])) {
        if (p > 0) sum -= grad.terms[RowTerm::entropy].value * p * (logprob + h);
        sum += grad.terms[RowTerm::logsumexp].value * p;
        sum += grad.terms[RowTerm::mean_logprob].value * (1 - row.finite * p) / vocab();
      }
      row_[v] = transform.slope(row_[v]) * (sum + of_divergence[static_cast<std::size_t>(v)]);
    }
  }

  void write_outputs(const TokenOutputs& out) const {
    for (std::int64_t k = 0; k < problem_.rows(); ++k) {
      out.logprobs[k] = static_cast<float>(rows_[k].outputs.logprob.value);
      for (const RowTerm term : kAllRowTerms) {
        if (out.terms[term].empty()) continue;
        out.terms[term][k] = static_cast<float>(rows_[k].outputs.terms[term].value);
      }
    }
  }

  const LossProblem& problem_;
  RankContext context_;
  std::unique_ptr<ReferenceInputs> inputs_;
  DeviceArray<Row> own_rows_;
  DeviceArray<Row> tp_rows_;  // of the TP ranks of this CP rank
  DeviceArray<Row> rows_;     // of all ranks
  DeviceArray<double> row_;
  DeviceArray<double> teacher_row_;
  std::optional<ReferenceTeacher> teacher_;
  std::optional<ReferenceMask> mask_;
  ObjectiveTruth truth_;
};

class Reference final : public LossImplementation {
 public:
  ImplementationTraits describe() const override {
    ImplementationTraits traits{"reference",
                                "float64, unsharded, one sequence at a time: gathers everything",
                                LogprobScope::pack, 0};
    traits.inputs = InputKind::either;
    traits.counts_flops = false;
    return traits;
  }

  Cost cost(const LossProblem& problem) const override {
    Cost cost;
    const std::int64_t row_bytes = 8 * problem.vocab;
    cost.plan.workspace_bytes = (problem.has_teacher() ? 2 : 1) * row_bytes;
    ReferencePlan::add_rows_cost(problem, cost);
    add_reference_inputs(problem, cost);
    if (problem.has_teacher()) ReferenceTeacher::add_cost(problem, cost);
    if (problem.sampling.has_mask) ReferenceMask::add_cost(problem, cost);
    cost.forward.workspace_bytes = cost.backward.workspace_bytes = cost.plan.workspace_bytes;
    return cost;
  }

  DType grad_logits_dtype(const LossProblem& /*problem*/) const override { return DType::f64; }

  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<ReferencePlan>(problem, context);
  }
};

const Registered registered_reference{[] {
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
