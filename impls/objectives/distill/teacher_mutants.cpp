// SPDX-License-Identifier: Apache-2.0
// Mutants that read other parts of a teacher: other rows, and ids outside of its top k.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "harness/device/memory/host_view.h"
#include "impls/mutants/mutant.h"
#include "impls/objectives/distill/divergence_formulas.h"

namespace lossgrid {
namespace {

bool is_given_teacher(const LossProblem& problem) {
  return problem.has_teacher() && !problem.makes_teacher();
}

bool is_on_support(const LossProblem& problem) {
  return problem.terms().divergence.on_support();
}

/// Function that returns, for each local row, the local row whose teacher it gets.
using TeacherRows = std::vector<std::int64_t> (*)(const LossProblem& problem, int cp_rank);

/// `MovedTeacherPlan`: the right plan with the rows of its teacher in other places.
template <TeacherRows kRows>
class MovedTeacherPlan final : public LossPlan {
 public:
  MovedTeacherPlan(const LossProblem& problem, RankContext context, std::unique_ptr<LossPlan> right)
      : problem_(problem),
        device_(context.device),
        rows_(kRows(problem, context.cp.rank())),
        right_(std::move(right)) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    const Moved moved(*this, inputs);
    right_->forward(inputs, outputs);
  }
  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    const Moved moved(*this, inputs);
    right_->backward(inputs, gradients);
  }

 private:
  /// `Moved`: a scope in which the rows of the teacher are in other places.
  class Moved {
   public:
    Moved(const MovedTeacherPlan& plan, const LossInputs& inputs)
        : device_(plan.device_),
          view_(plan.device_, inputs.teacher,
                static_cast<std::size_t>(plan.problem_.teacher_bytes())),
          right_(view_.bytes().begin(), view_.bytes().end()) {
      if (plan.rows_.empty()) return;
      const std::size_t row_bytes = right_.size() / plan.rows_.size();
      for (std::size_t k = 0; k < plan.rows_.size(); ++k) {
        const auto from = static_cast<std::size_t>(plan.rows_[k]);
        std::memcpy(view_.data() + k * row_bytes, right_.data() + from * row_bytes, row_bytes);
      }
      view_.write_back();
    }
    Moved(const Moved&) = delete;
    Moved& operator=(const Moved&) = delete;
    ~Moved() {
      device_.synchronise();
      std::copy(right_.begin(), right_.end(), view_.data());
      view_.write_back();
    }

   private:
    HeapWatchScope unwatched_{nullptr};
    Device& device_;
    HostView view_;
    std::vector<std::byte> right_;
  };

  const LossProblem& problem_;
  Device& device_;
  const std::vector<std::int64_t> rows_;
  std::unique_ptr<LossPlan> right_;
};

/// Gives every row the teacher of the next row, if the next row has a trained token.
std::vector<std::int64_t> next_rows(const LossProblem& problem, int cp_rank) {
  const ShiftedBatch local =
      shift_targets(problem.batch).gather(cp_rows(problem.batch, problem.grid.cp, cp_rank));
  std::vector<std::int64_t> rows(local.rows());
  std::iota(rows.begin(), rows.end(), 0);
  for (std::size_t k = 0; k + 1 < rows.size(); ++k) {
    const bool is_in_sequence = local.sequence[k] == local.sequence[k + 1];
    if (is_in_sequence && local.valid[k + 1] != 0) ++rows[k];
  }
  return rows;
}

/// Gives the first chunk of every sequence the rows of its second chunk.
std::vector<std::int64_t> rows_of_other_chunk(const LossProblem& problem, int) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(problem.local_rows()));
  std::iota(rows.begin(), rows.end(), 0);
  for (std::int64_t i = 0; i < problem.batch.sequences(); ++i) {
    const std::int64_t begin = problem.batch.cu_seqlens_padded[i] / problem.grid.cp;
    const std::int64_t end = problem.batch.cu_seqlens_padded[i + 1] / problem.grid.cp;
    std::rotate(rows.begin() + begin, rows.begin() + (begin + end) / 2, rows.begin() + end);
  }
  return rows;
}

/// Makes the teacher's logits from the hidden states of other rows.
template <TeacherRows kRows>
void source_of_other_rows(const LossProblem& problem, const RankContext& context,
                          const RowRange& range, std::span<std::int32_t> source) {
  const std::vector<std::int64_t> rows = kRows(problem, context.cp.rank());
  for (std::size_t k = 0; k < source.size(); ++k) {
    source[k] = static_cast<std::int32_t>(rows[static_cast<std::size_t>(range.begin) + k]);
  }
}

/// Takes p of the whole vocabulary: p - q at every id, although D covers the teacher's ids only.
void gradient_of_all_ids(const LogitsRows& rows, const RowSoftmax& softmax,
                         const RowGradients& gradients, void* out) {
  LogitsRows whole = rows;
  whole.divergence.topk = Divergence::Topk::whole;
  rows_gradient(whole, softmax, gradients, out);
}

/// Leaves 0 at ids that the teacher has not sent, although p covers the whole vocabulary.
void gradient_of_sent_ids(const LogitsRows& rows, const RowSoftmax& softmax,
                          const RowGradients& gradients, void* out) {
  LogitsRows sent = rows;
  sent.divergence.topk = Divergence::Topk::renormalized;
  RowSoftmax own = softmax;
  own.support_shift = softmax.shift;
  own.support_sum = softmax.sum;
  rows_gradient(sent, own, gradients, out);
}

const RegisteredMutant teacher_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M108",
        .name = "distill_teacher_of_next_row",
        .what = "a row is compared with the teacher of the next row, whose target it does not have",
        .strategy = "fused",
        .runs_on = is_given_teacher,
        .plan = plan_around<MovedTeacherPlan<next_rows>>,
        .seen_in = "NeMo-RL, draft training",
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M108",
        .name = "distill_teacher_of_other_chunk",
        .what = "the teacher's rows of a CP rank have its two chunks in the other order",
        .strategy = "cp_local",
        .runs_on =
            [](const LossProblem& problem) {
              return is_given_teacher(problem) && problem.grid.cp > 1;
            },
        .plan = plan_around<MovedTeacherPlan<rows_of_other_chunk>>,
        .seen_in = "verl 0.9.1, contiguous layout: other rows of the pack",
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M146",
        .name = "teacher_hidden_of_next_row",
        .what = "under CP, hidden states of a teacher are those of the next row of the rank",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.teacher_source = source_of_other_rows<next_rows>; },
        .runs_on =
            [](const LossProblem& problem) {
              return problem.makes_teacher() && problem.grid.cp > 1;
            },
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M109",
        .name = "distill_student_of_all_ids",
        .what = "the student is not renormalised over the teacher's top k",
        .strategy = "fused",
        .teacher = [](Teacher& teacher, const LossProblem&) { teacher.sends_topk = false; },
        .runs_on = is_on_support,
        .seen_in = "verl 0.9.1, by design",
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M110",
        .name = "distill_gradient_outside_topk",
        .what = "ids that the teacher has not sent get the gradient p of the whole vocabulary",
        .strategy = "cp_gather_logits",
        .change = [](Steps& s) { s.gradient = gradient_of_all_ids; },
        .runs_on =
            [](const LossProblem& problem) {
              return is_on_support(problem) &&
                     problem.terms().divergence.kind == Divergence::Kind::forward;
            },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M110",
        .name = "distill_gradient_at_topk_alone",
        .what = "with zero_outside_topk, ids that the teacher has not sent get no gradient",
        .strategy = "fused",
        .change = [](Steps& s) { s.gradient = gradient_of_sent_ids; },
        .runs_on =
            [](const LossProblem& problem) {
              return problem.has_teacher() && problem.teacher.sends_topk && !is_on_support(problem);
            },
        .rejected_by = "grad_logits",
    }),
};

}  // namespace
}  // namespace lossgrid
