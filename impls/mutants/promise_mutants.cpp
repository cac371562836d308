// SPDX-License-Identifier: Apache-2.0
// Mutants that break a promise beside the numbers: what is written where, the same bits on every
// run and rank, ranges of outputs, memory between microbatches, rows that kernels read. Most have
// right numbers, so that nothing but the check of the promise can reject them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "impls/mutants/host_step.h"
#include "impls/mutants/mutant.h"
#include "impls/mutants/row_formulas.h"

namespace lossgrid {
namespace {

bool from_logits_on_host(const LossProblem& problem) {
  return problem.backend == Backend::cpu && !problem.from_hidden();
}

// --- gradients -----------------------------------------------------------------------------------

/// Writes d loss / d logprob to the padding columns of rows that have a gradient.
void padding_gets_a_gradient(const LogitsRows& rows, const RowSoftmax& softmax,
                             const RowGradients& gradients, void* out) {
  rows_gradient(rows, softmax, gradients, out);
  dispatch_floating(rows.dtype, [&](auto zero) {
    auto* row = static_cast<decltype(zero)*>(out);
    for (std::int64_t r = 0; r < rows.rows; ++r, row += rows.shard.width) {
      for (std::int64_t v = rows.shard.valid(); v < rows.shard.width; ++v) {
        store(gradients.logprob[r], row[v]);
      }
    }
  });
}

/// Leaves rows without a gradient as they were.
void masked_rows_left_alone(const LogitsRows& rows, const RowSoftmax& softmax,
                            const RowGradients& gradients, void* out) {
  const auto row_bytes = static_cast<std::size_t>(rows.shard.width) * size_of(rows.dtype);
  auto* bytes = static_cast<std::byte*>(out);
  const std::vector<std::byte> before(bytes, bytes + row_bytes * rows.rows);
  rows_gradient(rows, softmax, gradients, out);
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    if (!gradients.is_zero(r)) continue;
    const std::size_t at = row_bytes * static_cast<std::size_t>(r);
    std::memcpy(bytes + at, before.data() + at, row_bytes);
  }
}

/// `BrokenWrites`: the right plan, and after its backward pass a write where it has no business.
template <void (*write)(const LossProblem&, const RankContext&, const LossInputs&, LossGradients&)>
class BrokenWrites final : public LossPlan {
 public:
  BrokenWrites(const LossProblem& problem, RankContext context, std::unique_ptr<LossPlan> right)
      : problem_(problem), context_(context), right_(std::move(right)) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    right_->forward(inputs, outputs);
  }
  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    right_->backward(inputs, gradients);
    write(problem_, context_, inputs, gradients);
  }

 private:
  const LossProblem& problem_;
  RankContext context_;
  std::unique_ptr<LossPlan> right_;
};

void element_behind(const LossProblem& problem, const RankContext& /*context*/,
                    const LossInputs& /*inputs*/, LossGradients& gradients) {
  std::memset(static_cast<std::byte*>(gradients.logits) + problem.logits_bytes(), 0,
              static_cast<std::size_t>(problem.element_bytes()));
}

void gradient_over_logits(const LossProblem& problem, const RankContext& context,
                          const LossInputs& inputs, LossGradients& gradients) {
  context.device.copy(const_cast<void*>(inputs.logits), gradients.logits,
                      static_cast<std::size_t>(problem.logits_bytes()));
}

void zero_on_last_tp_rank(const LossProblem& problem, const RankContext& context,
                          const LossInputs& /*inputs*/, LossGradients& gradients) {
  if (context.tp.size() == 1 || context.tp.rank() + 1 < context.tp.size()) return;
  context.device.fill(gradients.logits, 0, static_cast<std::size_t>(problem.logits_bytes()),
                      MemorySpace::device);
}

void last_state_is_nan(const LossProblem& problem, const RankContext& /*context*/,
                       const LossInputs& /*inputs*/, LossGradients& gradients) {
  const std::int64_t elements = problem.hidden_rows() * problem.head.hidden;
  if (elements == 0) return;
  dispatch_floating(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    static_cast<T*>(gradients.hidden)[elements - 1] = T(std::numeric_limits<float>::quiet_NaN());
  });
}

// --- outputs -------------------------------------------------------------------------------------

/// `ChangedOutputs`: the right plan, with outputs that change(problem, context, outputs, n) alters
/// behind the n-th forward pass.
template <void (*change)(const LossProblem&, const RankContext&, LossOutputs&, int)>
class ChangedOutputs final : public LossPlan {
 public:
  ChangedOutputs(const LossProblem& problem, RankContext context, std::unique_ptr<LossPlan> right)
      : problem_(problem), context_(context), right_(std::move(right)) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    right_->forward(inputs, outputs);
    context_.device.synchronise();
    change(problem_, context_, outputs, ++forwards_);
  }
  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    right_->backward(inputs, gradients);
  }

 private:
  const LossProblem& problem_;
  RankContext context_;
  std::unique_ptr<LossPlan> right_;
  int forwards_ = 0;
};

void last_bit_of(std::span<float> column) {
  for (float& x : column) x = std::nextafter(x, -std::numeric_limits<float>::infinity());
}

void other_bits_on_later_runs(const LossProblem&, const RankContext&, LossOutputs& outputs, int n) {
  if (n > 1) last_bit_of(outputs.tokens.logprobs);
}

void other_bits_with_cp(const LossProblem& problem, const RankContext&, LossOutputs& outputs, int) {
  if (problem.grid.cp > 1) last_bit_of(outputs.tokens.logprobs);
}

void other_loss_on_tp_ranks(const LossProblem&, const RankContext& context, LossOutputs& outputs,
                            int) {
  if (context.tp.rank() == 0) return;
  double& loss = outputs.result.loss;
  loss = std::nextafter(loss, std::numeric_limits<double>::infinity());
}

void losses_for_logprobs(const LossProblem&, const RankContext&, LossOutputs& outputs, int) {
  for (float& x : outputs.tokens.logprobs) x = -x;
}

void entropy_in_bits(const LossProblem&, const RankContext&, LossOutputs& outputs, int) {
  constexpr float kBitsOfNat = 1.44269504f;
  for (float& x : outputs.tokens.terms[RowTerm::entropy]) x *= kBitsOfNat;
}

template <RowTerm term>
void term_in_bf16(const LossProblem&, const RankContext&, LossOutputs& outputs, int) {
  for (float& x : outputs.tokens.terms[term]) x = static_cast<float>(bf16(x));
}

template <RowTerm term>
bool loss_depends_on(const LossProblem& problem) {
  return problem.terms().has(term);
}

// --- logits, memory, traffic ---------------------------------------------------------------------

/// Takes the statistics of logits of at most 12: right for most batches, since models keep logits
/// small, but no function of their differences.
std::int64_t statistics_of_clamped(const LogitsRows& rows, const RowStatistics& out) {
  const MappedRows clamped(rows, [&rows](std::int64_t r, auto x) {
    return std::min(transformed(rows, r, x), decltype(x)(12));
  });
  return rows_statistics(clamped.rows(), out);
}

/// `BufferLeftBehind`: the right plan, and a buffer that lives until the next microbatch is
/// planned.
class BufferLeftBehind final : public LossPlan {
 public:
  BufferLeftBehind(const LossProblem& problem, RankContext context, std::unique_ptr<LossPlan> right)
      : right_(std::move(right)),
        buffer_(std::make_unique<Buffer>(context.device.allocate(kBytes, "left_behind"))),
        is_last_(problem.batch.microbatch.index + 1 == problem.batch.microbatch.count) {
    // After a trial that was cut short it is gone with its device.
    if (problem.batch.microbatch.index > 0) delete left_;
    left_ = nullptr;
  }
  ~BufferLeftBehind() override {
    if (is_last_) return;
    delete left_;  // of another microbatch in flight
    left_ = buffer_.release();
  }

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    right_->forward(inputs, outputs);
  }
  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    right_->backward(inputs, gradients);
  }

 private:
  static constexpr std::size_t kBytes = 64;
  static thread_local Buffer* left_;

  std::unique_ptr<LossPlan> right_;
  std::unique_ptr<Buffer> buffer_;
  const bool is_last_;
};

thread_local Buffer* BufferLeftBehind::left_ = nullptr;

std::int64_t statistics_twice(const LogitsRows& rows, const RowStatistics& out) {
  rows_statistics(rows, out);
  return rows_statistics(rows, out);
}

const RegisteredMutant promise_mutants[] = {
    RegisteredMutant({
        .name = "padding_gets_a_gradient",
        .what = "padding columns of the vocabulary get d loss / d logprob",
        .strategy = "fused",
        .change = [](Steps& s) { s.gradient = gradient_on_host<padding_gets_a_gradient>; },
        .rejected_by = "padded_vocab_zero",
    }),
    RegisteredMutant({
        .name = "masked_rows_not_written",
        .what = "rows without a gradient are left as they were allocated",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.gradient = gradient_on_host<masked_rows_left_alone>; },
        .rejected_by = "every_element_written",
    }),
    RegisteredMutant({
        .name = "element_behind_gradient",
        .what = "writes an element behind the gradient",
        .strategy = "cp_local",
        .runs_on = from_logits_on_host,
        .plan = plan_around<BrokenWrites<element_behind>>,
        .rejected_by = "guard_bands_intact",
    }),
    RegisteredMutant({
        .name = "logits_overwritten",
        .what = "the gradient is left in the logits, too, which is not declared",
        .strategy = "cp_local",
        .plan = plan_around<BrokenWrites<gradient_over_logits>>,
        .rejected_by = "inputs_unmodified",
    }),
    RegisteredMutant({
        .name = "zero_gradient_on_last_tp_rank",
        .what = "the last TP rank has no gradient",
        .strategy = "fused",
        .runs_on = [](const LossProblem& problem) { return problem.grid.tp > 1; },
        .plan = plan_around<BrokenWrites<zero_on_last_tp_rank>>,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .name = "linear_last_state_is_nan",
        .what = "the last element of d hidden is NaN",
        .strategy = "linear_ce",
        .runs_on = [](const LossProblem& problem) { return problem.backend == Backend::cpu; },
        .plan = plan_around<BrokenWrites<last_state_is_nan>>,
        .rejected_by = "gradients_finite",
    }),
    RegisteredMutant({
        .name = "other_bits_on_later_runs",
        .what = "log-probabilities of a second run differ in the last bit",
        .strategy = "fused",
        .plan = plan_around<ChangedOutputs<other_bits_on_later_runs>>,
        .rejected_by = "run_to_run",
    }),
    RegisteredMutant({
        .name = "other_bits_with_cp",
        .what = "log-probabilities under CP differ in the last bit",
        .strategy = "fused",
        .plan = plan_around<ChangedOutputs<other_bits_with_cp>>,
        .rejected_by = "packing",
    }),
    RegisteredMutant({
        .name = "other_loss_on_tp_ranks",
        .what = "the loss of TP ranks behind the first differs in the last bit",
        .strategy = "cp_local",
        .runs_on = [](const LossProblem& problem) { return problem.grid.tp > 1; },
        .plan = plan_around<ChangedOutputs<other_loss_on_tp_ranks>>,
        .rejected_by = "same_bits_on_all_ranks",
    }),
    RegisteredMutant({
        .name = "losses_for_logprobs",
        .what = "negative log-probabilities are returned as log-probabilities",
        .strategy = "cp_local",
        .plan = plan_around<ChangedOutputs<losses_for_logprobs>>,
        .rejected_by = "logprobs_nonpositive",
    }),
    RegisteredMutant({
        .name = "entropy_in_bits",
        .what = "entropies in bits, not in nats",
        .strategy = "cp_local",
        .runs_on = [](const LossProblem& problem) { return problem.row_statistics(); },
        .plan = plan_around<ChangedOutputs<entropy_in_bits>>,
        .rejected_by = "entropy_in_range",
    }),
    RegisteredMutant({
        .name = "logsumexp_in_bf16",
        .what = "the log-sum-exp that is returned is rounded to bf16",
        .strategy = "fused",
        .runs_on = loss_depends_on<RowTerm::logsumexp>,
        .plan = plan_around<ChangedOutputs<term_in_bf16<RowTerm::logsumexp>>>,
        .rejected_by = "logsumexp",
    }),
    RegisteredMutant({
        .name = "mean_logprob_in_bf16",
        .what = "the mean log-probability that is returned is rounded to bf16",
        .strategy = "fused",
        .runs_on = loss_depends_on<RowTerm::mean_logprob>,
        .plan = plan_around<ChangedOutputs<term_in_bf16<RowTerm::mean_logprob>>>,
        .rejected_by = "mean_logprob",
    }),
    RegisteredMutant({
        .name = "logits_clamped",
        .what = "logits above 12 count as 12 in the statistics of a row",
        .strategy = "fused",
        .change = [](Steps& s) { s.statistics = statistics_on_host<statistics_of_clamped>; },
        .rejected_by = "shift_invariance",
    }),
    RegisteredMutant({
        .name = "buffer_left_behind",
        .what = "a buffer of a microbatch lives until the next one is planned",
        .strategy = "cp_local",
        .runs_on = [](const LossProblem& problem) { return problem.batch.microbatch.count > 1; },
        .plan = plan_around<BufferLeftBehind>,
        .rejected_by = "one_microbatch_in_memory",
    }),
    RegisteredMutant({
        .name = "rows_read_twice",
        .what = "kernels take the statistics of the rows twice (on an emulated GPU)",
        .strategy = "fused",
        .change = [](Steps& s) { s.statistics = statistics_twice; },
        .rejected_by = "traffic",
        .backend = Backend::cuda_emulated,
    }),
};

}  // namespace
}  // namespace lossgrid
