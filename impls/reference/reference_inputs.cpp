// SPDX-License-Identifier: Apache-2.0
#include "impls/reference/reference_inputs.h"

#include <algorithm>
#include <optional>

#include "harness/device/memory/host_view.h"

namespace lossgrid {
namespace {

/// Returns the first id of the rank's shard; a head with one number per row is on every rank.
std::int64_t first_id(const LossProblem& problem, const RankContext& context) {
  return problem.vocab == 1 ? 0 : context.tp.rank() * problem.width();
}

class GivenLogits final : public ReferenceInputs {
 public:
  GivenLogits(const LossProblem& problem, RankContext context)
      : problem_(problem),
        context_(context),
        logits_(problem, context, problem.logits_bytes(), problem.dtype) {}

  static void add_cost(const LossProblem& problem, Cost& cost) {
    GatheredLogits::add_cost(problem, problem.logits_bytes(), cost);
  }

  void gather(const LossInputs& inputs) override { logits_.gather(inputs.logits); }

  void read_row(std::int64_t cp_rank, std::int64_t slot, std::span<double> row) override {
    logits_.read_row(cp_rank, slot, row);
  }

  void begin_gradient(const LossGradients& gradients) override {
    out_.emplace(context_.device, gradients.logits,
                 static_cast<std::size_t>(problem_.logits_bytes()));
    std::fill_n(out_->data(), problem_.logits_bytes(), std::byte{0});
  }

  IdRange gradient_ids() const override {
    const std::int64_t begin = first_id(problem_, context_);
    return {begin, std::min(problem_.vocab, begin + problem_.width())};
  }

  void add_gradient(std::int64_t slot, std::span<const double> row) override {
    const std::int64_t width = problem_.width();
    const IdRange ids = gradient_ids();
    dispatch_floating(problem_.dtype, [&](auto zero) {
      using T = decltype(zero);
      for (std::int64_t v = ids.begin; v < ids.end; ++v) {
        out_->as<T>()[slot * width + v - ids.begin] = static_cast<T>(row[v]);
      }
    });
  }

  void end_gradient() override { out_->write_back(); }

 private:
  const LossProblem& problem_;
  RankContext context_;
  GatheredLogits logits_;
  std::optional<HostView> out_;
};

class ProjectedHidden final : public ReferenceInputs {
 public:
  ProjectedHidden(const LossProblem& problem, RankContext context)
      : problem_(problem),
        context_(context),
        size_(problem.head.hidden),
        weight_over_tp_(context.device, weight_bytes(problem), problem.grid.tp),
        hidden_over_tp_(context.device, problem.hidden_bytes(), problem.grid.row_parts()),
        hidden_over_cp_(context.device, problem.hidden_bytes() * problem.grid.row_parts(),
                        problem.grid.cp),
        grad_weight_(context.device, static_cast<std::size_t>(problem.weight_elements()),
                     "grad_weight_f64") {
    if (!problem.head.has_bias) return;
    bias_over_tp_.emplace(context.device, bias_bytes(problem), problem.grid.tp);
    grad_bias_ = DeviceArray<double>(
        context.device, static_cast<std::size_t>(problem.bias_elements()), "grad_bias_f64");
  }

  static std::int64_t weight_bytes(const LossProblem& problem) {
    return problem.weight_elements() * problem.element_bytes();
  }

  static std::int64_t bias_bytes(const LossProblem& problem) {
    return problem.bias_elements() * problem.element_bytes();
  }

  static void add_cost(const LossProblem& problem, Cost& cost) {
    const int parts = problem.grid.row_parts();
    Gathered::add_cost(weight_bytes(problem), problem.grid.tp, cost.forward.tp, cost);
    Gathered::add_cost(problem.hidden_bytes(), parts, cost.forward.tp, cost);
    Gathered::add_cost(problem.hidden_bytes() * parts, problem.grid.cp, cost.forward.cp, cost);
    cost.plan.workspace_bytes += 8 * (problem.weight_elements() + problem.bias_elements());
    if (problem.head.has_bias) {
      Gathered::add_cost(bias_bytes(problem), problem.grid.tp, cost.forward.tp, cost);
    }
    const std::int64_t product = 2 * problem.rows() * problem.vocab * problem.head.hidden;
    cost.forward.flops = product;
    cost.backward.flops = (2 * product + product / problem.vocab_ranks()) / problem.grid.cp;
  }

  void gather(const LossInputs& inputs) override {
    weight_over_tp_.gather(context_.tp, inputs.weight, problem_.dtype);
    weight_.emplace(weight_over_tp_.view());
    if (bias_over_tp_) {
      bias_over_tp_->gather(context_.tp, inputs.bias, problem_.dtype);
      bias_.emplace(bias_over_tp_->view());
    }
    const void* over_tp = hidden_over_tp_.gather(context_.tp, inputs.hidden, problem_.dtype);
    hidden_over_cp_.gather(context_.cp, over_tp, problem_.dtype);
    hidden_.emplace(hidden_over_cp_.view());
  }

  void read_row(std::int64_t cp_rank, std::int64_t slot, std::span<double> row) override {
    for (std::int64_t v = 0; v < problem_.vocab; ++v) {
      double sum = 0;
      for (std::int64_t h = 0; h < size_; ++h) sum += hidden_at(cp_rank, slot, h) * weight_at(v, h);
      if (bias_) sum += element(*bias_, v);
      row[v] = sum * problem_.product_alpha();
    }
  }

  void begin_gradient(const LossGradients& gradients) override {
    std::fill(grad_weight_.begin(), grad_weight_.end(), 0.0);
    if (bias_) {
      std::fill(grad_bias_.begin(), grad_bias_.end(), 0.0);
      out_bias_.emplace(context_.device, gradients.bias,
                        static_cast<std::size_t>(problem_.bias_elements()) * sizeof(float));
    }
    out_weight_.emplace(context_.device, gradients.weight,
                        static_cast<std::size_t>(problem_.weight_elements()) * sizeof(float));
    out_hidden_.emplace(context_.device, gradients.hidden,
                        static_cast<std::size_t>(problem_.hidden_bytes()));
    std::fill_n(out_hidden_->data(), problem_.hidden_bytes(), std::byte{0});
  }

  /// The gradient of hidden states takes all ids.
  IdRange gradient_ids() const override { return {0, problem_.vocab}; }

  void add_gradient(std::int64_t slot, std::span<const double> row) override {
    const std::int64_t own = slot - first_own_slot();
    if (own >= 0 && own < problem_.hidden_rows()) write_grad_hidden(own, row);
    const std::int64_t width = problem_.width();
    const std::int64_t begin = first_id(problem_, context_);
    const std::int64_t end = std::min(problem_.vocab, begin + width);
    for (std::int64_t v = begin; v < end; ++v) {
      for (std::int64_t h = 0; h < size_; ++h) {
        grad_weight_[place(v - begin, h)] +=
            row[v] * hidden_at(context_.cp.rank(), slot, h) * problem_.product_alpha();
      }
      if (bias_) grad_bias_[v - begin] += row[v] * problem_.product_alpha();
    }
  }

  void end_gradient() override {
    add_sums(grad_weight_, *out_weight_);
    if (bias_) add_sums(grad_bias_, *out_bias_);
    out_hidden_->write_back();
  }

 private:
  /// Adds sums to a gradient. Elements without a sum, such as those of padding ids, are not
  /// changed.
  static void add_sums(const DeviceArray<double>& sums, const HostView& out) {
    for (std::size_t k = 0; k < sums.size(); ++k) {
      if (sums[k] != 0) out.as<float>()[k] += static_cast<float>(sums[k]);
    }
    out.write_back();
  }

  std::int64_t first_own_slot() const {
    return problem_.grid.sp ? context_.tp.rank() * problem_.hidden_rows() : 0;
  }

  /// Returns the index of id v and column h of a shard, in the layout of the weight.
  std::int64_t place(std::int64_t v, std::int64_t h) const {
    return problem_.head.layout == WeightLayout::vocab_hidden ? v * size_ + h
                                                              : h * problem_.width() + v;
  }

  double weight_at(std::int64_t v, std::int64_t h) const {
    const std::int64_t shard = v / problem_.width();
    return element(*weight_, shard * problem_.weight_elements() + place(v % problem_.width(), h));
  }

  double hidden_at(std::int64_t cp_rank, std::int64_t slot, std::int64_t h) const {
    return element(*hidden_, (cp_rank * problem_.local_rows() + slot) * size_ + h);
  }

  double element(const HostView& tensor, std::int64_t k) const {
    const auto place = static_cast<std::size_t>(k);
    return problem_.dtype == DType::bf16
               ? static_cast<double>(static_cast<float>(tensor.as<bf16>()[place]))
               : static_cast<double>(tensor.as<float>()[place]);
  }

  void write_grad_hidden(std::int64_t own, std::span<const double> row) {
    for (std::int64_t h = 0; h < size_; ++h) {
      double sum = 0;
      for (std::int64_t v = 0; v < problem_.vocab; ++v) sum += row[v] * weight_at(v, h);
      sum *= problem_.product_alpha();
      dispatch_floating(problem_.dtype, [&](auto zero) {
        using T = decltype(zero);
        out_hidden_->as<T>()[own * size_ + h] = static_cast<T>(sum);
      });
    }
  }

  const LossProblem& problem_;
  RankContext context_;
  const std::int64_t size_;  // H
  Gathered weight_over_tp_;
  Gathered hidden_over_tp_;
  Gathered hidden_over_cp_;
  std::optional<Gathered> bias_over_tp_;  // only with a bias
  DeviceArray<double> grad_weight_;
  DeviceArray<double> grad_bias_;
  std::optional<HostView> weight_;  // [tp] shards
  std::optional<HostView> hidden_;  // [cp][T_c][H]
  std::optional<HostView> bias_;    // [tp] shards
  std::optional<HostView> out_weight_;
  std::optional<HostView> out_bias_;
  std::optional<HostView> out_hidden_;
};

}  // namespace

GatheredLogits::GatheredLogits(const LossProblem& problem, RankContext context,
                               std::int64_t part_bytes, DType dtype)
    : problem_(problem),
      context_(context),
      dtype_(dtype),
      over_tp_(context.device, part_bytes, problem.grid.tp),
      over_cp_(context.device, part_bytes * problem.grid.tp, problem.grid.cp) {}

void GatheredLogits::add_cost(const LossProblem& problem, std::int64_t part_bytes, Cost& cost) {
  Gathered::add_cost(part_bytes, problem.grid.tp, cost.forward.tp, cost);
  Gathered::add_cost(part_bytes * problem.grid.tp, problem.grid.cp, cost.forward.cp, cost);
}

void GatheredLogits::gather(const void* part) {
  const void* over_tp = over_tp_.gather(context_.tp, part, dtype_);
  over_cp_.gather(context_.cp, over_tp, dtype_);
  all_.emplace(over_cp_.view());
}

void GatheredLogits::read_row(std::int64_t cp_rank, std::int64_t slot,
                              std::span<double> row) const {
  const std::int64_t width = problem_.width();
  dispatch_floating(dtype_, [&](auto zero) {
    const auto logits = all_->as<const decltype(zero)>();
    for (std::int64_t begin = 0; begin < problem_.vocab; begin += width) {
      const std::int64_t shard = cp_rank * problem_.grid.tp + begin / width;
      const std::int64_t at = (shard * problem_.local_rows() + slot) * width;
      const std::int64_t count = std::min(width, problem_.vocab - begin);
      for (std::int64_t k = 0; k < count; ++k) {
        row[begin + k] = static_cast<double>(logits[at + k]);
      }
    }
  });
}

std::unique_ptr<ReferenceInputs> make_reference_inputs(const LossProblem& problem,
                                                       RankContext context) {
  if (problem.from_hidden()) return std::make_unique<ProjectedHidden>(problem, context);
  return std::make_unique<GivenLogits>(problem, context);
}

void add_reference_inputs(const LossProblem& problem, Cost& cost) {
  if (problem.from_hidden()) {
    ProjectedHidden::add_cost(problem, cost);
  } else {
    GivenLogits::add_cost(problem, cost);
  }
}

}  // namespace lossgrid
