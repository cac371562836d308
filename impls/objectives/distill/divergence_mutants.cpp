// SPDX-License-Identifier: Apache-2.0
// Mutants of a row's divergence from its teacher: summands that are missing from value or gradient,
// 0 times infinity, logarithms below a clamp, statistics and probabilities in bf16.
#include <algorithm>
#include <vector>

#include "impls/mutants/mutant.h"
#include "impls/objectives/distill/divergence_formulas.h"

namespace lossgrid {
namespace {

bool has_kind(const LossProblem& problem, Divergence::Kind kind) {
  return problem.terms().divergence.kind == kind;
}

bool is_forward(const LossProblem& problem) {
  return has_kind(problem, Divergence::Kind::forward);
}

/// True if the gradient uses a mean of ln p - ln r under p.
bool has_mean(const LossProblem& problem) {
  return problem.has_teacher() && !is_forward(problem);
}

/// Sums - q ln p, without the teacher's entropy.
void soft_cross_entropy(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                        const DivergenceSums& out) {
  divergence_by(rows, p, q, out, [](const DistilledColumn& column) {
    return std::pair(column.q > 0 ? -column.q * column.log_p : 0.0f, 0.0f);
  });
}

void gradient_without_mean(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                           const float*, const float* gradient, void* out) {
  const std::vector<float> none(static_cast<std::size_t>(rows.student.rows));
  rows_divergence_gradient(rows, p, q, none.data(), gradient, out);
}

void gradient_with_mean_of_shard(const DistilledRows& rows, const RowSoftmax& p,
                                 const RowSoftmax& q, const float*, const float* gradient,
                                 void* out) {
  const auto count = static_cast<std::size_t>(rows.student.rows);
  std::vector<float> of_teacher(count);
  std::vector<float> of_student(count);
  rows_divergence(rows, p, q, {of_teacher.data(), of_student.data()});
  rows_divergence_gradient(rows, p, q, of_student.data(), gradient, out);
}

void gradient_without_weight(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                             const float* of_student, const float* gradient, void* out) {
  std::vector<float> whole(gradient, gradient + rows.student.rows);
  for (float& g : whole) g /= static_cast<float>(1 - rows.divergence.beta);
  rows_divergence_gradient(rows, p, q, of_student, whole.data(), out);
}

/// Computes q (ln q - ln p) and p (ln p - ln q) at all ids, with 0 (-inf + inf) where both are
/// -inf.
void zero_times_difference_of_infinities(const DistilledRows& rows, const RowSoftmax& p,
                                         const RowSoftmax& q, const DivergenceSums& out) {
  divergence_by(rows, p, q, out, [&](const DistilledColumn& column) {
    std::pair<float, float> terms = right_terms(rows.divergence, column);
    const float log_ratio = column.log_q - column.log_p;
    if (std::isnan(log_ratio)) terms.first += column.q * log_ratio;
    return terms;
  });
}

void gradient_of_difference_of_infinities(const DistilledRows& rows, const RowSoftmax& p,
                                          const RowSoftmax& q, const float* of_student,
                                          const float* gradient, void* out) {
  divergence_gradient_by(rows, p, q, gradient, out,
                         [&](std::int64_t r, const DistilledColumn& column) {
                           const float log_ratio = column.log_p - column.log_q;
                           const float of_masked = std::isnan(log_ratio) ? column.p * log_ratio : 0;
                           return right_slope(rows.divergence, column, of_student[r]) + of_masked;
                         });
}

/// Takes the gradient of the forward side alone, with its weight.
void gradient_of_forward_side(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                              const float* of_student, const float* gradient, void* out) {
  DistilledRows forward = rows;
  forward.divergence.kind = Divergence::Kind::forward;
  std::vector<float> weighted(gradient, gradient + rows.student.rows);
  for (float& g : weighted) g *= static_cast<float>(rows.divergence.beta);
  rows_divergence_gradient(forward, p, q, of_student, weighted.data(), out);
}

/// True if ln p is compared with a number at ids that the teacher has not sent.
bool has_floor(const LossProblem& problem) {
  const Divergence divergence = problem.terms().divergence;
  return divergence.topk == Divergence::Topk::zero_outside &&
         divergence.kind != Divergence::Kind::forward;
}

/// Sums over the ids that the teacher has sent.
void divergence_of_sent_ids(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                            const DivergenceSums& out) {
  divergence_by(rows, p, q, out, [&](const DistilledColumn& column) {
    return column.q > 0 ? right_terms(rows.divergence, column) : std::pair(0.0f, 0.0f);
  });
}

/// Compares ln p with 0 at ids that the teacher has not sent.
void gradient_with_floor_of_zero(const DistilledRows& rows, const RowSoftmax& p,
                                 const RowSoftmax& q, const float* of_student,
                                 const float* gradient, void* out) {
  divergence_gradient_by(rows, p, q, gradient, out, [&](std::int64_t r, DistilledColumn column) {
    if (column.q == 0) column.log_q = 0;
    return right_slope(rows.divergence, column, of_student[r]);
  });
}

constexpr float kSmallestLogprob = -10;

void clamped_divergence(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                        const DivergenceSums& out) {
  divergence_by(rows, p, q, out, [](const DistilledColumn& column) {
    const float log_p = std::max(column.log_p, kSmallestLogprob);
    return std::pair(column.q > 0 ? column.q * (column.log_q - log_p) : 0.0f, 0.0f);
  });
}

bool is_clamped(const LossProblem& problem) {
  return problem.terms().divergence.is_clamped();
}

/// Sums q (ln q - max(ln p, c)), without a clamp of ln q.
void divergence_of_plain_teacher(const DistilledRows& rows, const RowSoftmax& p,
                                 const RowSoftmax& q, const DivergenceSums& out) {
  rows_divergence(rows, p, q, out);
  const std::vector<float> left(out.of_student, out.of_student + rows.student.rows);
  const auto least = static_cast<float>(rows.divergence.log_prob_min);
  divergence_by(rows, p, q, out, [&](const DistilledColumn& column) {
    const float log_p = std::max(column.log_p, least);
    return std::pair(column.q > 0 ? column.q * (column.log_q - log_p) : 0.0f, 0.0f);
  });
  std::copy(left.begin(), left.end(), out.of_student);
}

/// Subtracts q at ids whose ln p is below the clamp, too.
void gradient_through_clamp(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                            const float* of_student, const float* gradient, void* out) {
  const auto least = static_cast<float>(rows.divergence.log_prob_min);
  divergence_gradient_by(rows, p, q, gradient, out,
                         [&](std::int64_t r, const DistilledColumn& column) {
                           if (std::isinf(column.z)) return 0.0f;
                           const bool is_sent = !std::isinf(column.log_q);
                           const float sent = std::exp(std::max(column.log_q, least));
                           return of_student[r] * column.p - (is_sent ? sent : 0);
                         });
}

/// Uses 1 as the sum of the teacher's probabilities.
void gradient_of_whole_mass(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                            const float*, const float* gradient, void* out) {
  const std::vector<float> one(static_cast<std::size_t>(rows.student.rows), 1.0f);
  rows_divergence_gradient(rows, p, q, one.data(), gradient, out);
}

bool has_tail(const LossProblem& problem) {
  return problem.terms().divergence.has_tail();
}

/// Changes the tails of rows.
template <void (*kChange)(TailRow&)>
void with_tails(Compared& compared) {
  compared.tails.assign(compared.p.tail, compared.p.tail + compared.rows.student.rows);
  for (TailRow& tail : compared.tails) kChange(tail);
  compared.p.tail = compared.tails.data();
}

/// Leaves the tail out of both sums.
void count_no_tail(TailRow& tail) {
  tail.log_ratio = 0;
  tail.ratio = 0;
}

/// Leaves q of a tail out of the gradient of its ids.
void hold_tail(TailRow& tail) {
  tail.ratio = 0;
}

/// Rounds sums of the teacher's exponentials to bf16.
std::int64_t sums_of_teacher_in_bf16(const LogitsRows& rows, const RowStatistics& out) {
  const std::int64_t owned = rows_statistics(rows, out);
  const bool is_of_teacher = rows.divergence.is_any() && rows.teacher == nullptr;
  for (std::int64_t r = 0; is_of_teacher && r < rows.rows; ++r) {
    out.sum[r] = static_cast<float>(bf16(out.sum[r]));
  }
  return owned;
}

void gradient_of_bf16_probabilities(const DistilledRows& rows, const RowSoftmax& p,
                                    const RowSoftmax& q, const float* of_student,
                                    const float* gradient, void* out) {
  divergence_gradient_by(rows, p, q, gradient, out, [&](std::int64_t r, DistilledColumn column) {
    column.p = static_cast<float>(bf16(column.p));
    column.q = static_cast<float>(bf16(column.q));
    return right_slope(rows.divergence, column, of_student[r]);
  });
}

const RegisteredMutant divergence_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M113",
        .name = "distill_soft_cross_entropy",
        .what = "the divergence without the entropy of the teacher, which has no gradient",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.divergence = divergence_on_host<soft_cross_entropy>; },
        .runs_on = is_forward,
        .seen_in = "NeMo-RL, SkyRL 0.3.0, draft training, by design",
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M114",
        .name = "distill_gradient_without_mean",
        .what = "the gradient of reverse divergence and jsd without their mean R",
        .strategy = "fused",
        .change = [](Steps& s) { s.gradient = divergence_gradient_on_host<gradient_without_mean>; },
        .runs_on = has_mean,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M114",
        .name = "distill_gradient_with_mean_of_shard",
        .what = "the gradient of reverse divergence and jsd with R of the own vocab shard",
        .strategy = "one_sweep",
        .change =
            [](Steps& s) { s.gradient = divergence_gradient_on_host<gradient_with_mean_of_shard>; },
        .runs_on =
            [](const LossProblem& problem) { return has_mean(problem) && problem.grid.tp > 1; },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M115",
        .name = "distill_jsd_gradient_without_weight",
        .what = "the gradient of jsd without the student's weight 1 - jsd_beta",
        .strategy = "linear_ce",
        .change =
            [](Steps& s) { s.gradient = divergence_gradient_on_host<gradient_without_weight>; },
        .runs_on =
            [](const LossProblem& problem) { return has_kind(problem, Divergence::Kind::jsd); },
        .rejected_by = "grad_hidden",
    }),
    RegisteredMutant({
        .catalogue_id = "M116",
        .name = "distill_masked_vocab",
        .what = "0 (-inf + inf) at ids that neither student nor teacher has",
        .strategy = "cp_gather_logits",
        .change =
            [](Steps& s) {
              s.divergence = divergence_on_host<zero_times_difference_of_infinities>;
            },
        .runs_on = distills,
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M116",
        .name = "distill_gradient_of_masked_vocab",
        .what = "0 (-inf + inf) in the gradient at ids that neither student nor teacher has",
        .strategy = "fused",
        .change =
            [](Steps& s) {
              s.gradient = divergence_gradient_on_host<gradient_of_difference_of_infinities>;
            },
        .runs_on = has_mean,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M117",
        .name = "distill_clamped_logprobs",
        .what = "ln p of the student is at least -10",
        .strategy = "fused",
        .change = [](Steps& s) { s.divergence = divergence_on_host<clamped_divergence>; },
        .runs_on = is_forward,
        .seen_in = "verl 0.9.1, by design",
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M128",
        .name = "distill_mixed_gradient_of_forward",
        .what = "the gradient of a mixed divergence without that of its reverse side",
        .strategy = "fused",
        .change =
            [](Steps& s) { s.gradient = divergence_gradient_on_host<gradient_of_forward_side>; },
        .runs_on =
            [](const LossProblem& problem) { return has_kind(problem, Divergence::Kind::mixed); },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M129",
        .name = "distill_nothing_outside_topk",
        .what = "with zero_outside_topk, probability that the teacher has not sent costs nothing",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.divergence = divergence_on_host<divergence_of_sent_ids>; },
        .runs_on = has_floor,
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M130",
        .name = "distill_gradient_with_floor_of_zero",
        .what = "with zero_outside_topk, the gradient has ln q = 0, not -100, outside of the top k",
        .strategy = "one_sweep",
        .change =
            [](Steps& s) { s.gradient = divergence_gradient_on_host<gradient_with_floor_of_zero>; },
        .runs_on = has_floor,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M131",
        .name = "distill_teacher_not_clamped",
        .what = "ln q is not clamped by log_prob_min_clamp, as ln p is",
        .strategy = "fused",
        .change = [](Steps& s) { s.divergence = divergence_on_host<divergence_of_plain_teacher>; },
        .runs_on = is_clamped,
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M132",
        .name = "distill_gradient_through_clamp",
        .what = "ids whose ln p is clamped keep their - q in the gradient",
        .strategy = "cp_local",
        .change =
            [](Steps& s) { s.gradient = divergence_gradient_on_host<gradient_through_clamp>; },
        .runs_on = is_clamped,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M132",
        .name = "distill_gradient_of_whole_mass",
        .what = "p - q of a teacher's top k, as if its probabilities added up to 1",
        .strategy = "fused",
        .change =
            [](Steps& s) { s.gradient = divergence_gradient_on_host<gradient_of_whole_mass>; },
        .runs_on = is_clamped,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M135",
        .name = "distill_tail_not_counted",
        .what = "ids that the teacher has not sent count for nothing in spite of their tail",
        .strategy = "fused",
        .change =
            [](Steps& s) {
              s.divergence = divergence_on_host<divergence_of_changed<with_tails<count_no_tail>>>;
            },
        .runs_on = has_tail,
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M136",
        .name = "distill_tail_without_gradient",
        .what = "the tail of the teacher does not pull at the ids that it stands for",
        .strategy = "cp_local",
        .change =
            [](Steps& s) {
              s.gradient = divergence_gradient_on_host<gradient_of_changed<with_tails<hold_tail>>>;
            },
        .runs_on =
            [](const LossProblem& problem) { return has_tail(problem) && is_forward(problem); },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M118",
        .name = "distill_teacher_sum_in_bf16",
        .what = "sums of the teacher's exponentials rounded to bf16",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.statistics = statistics_on_host<sums_of_teacher_in_bf16>; },
        .runs_on = distills,
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M118",
        .name = "distill_probabilities_in_bf16",
        .what = "probabilities in the gradient rounded to bf16",
        .strategy = "fused",
        .change =
            [](Steps& s) {
              s.gradient = divergence_gradient_on_host<gradient_of_bf16_probabilities>;
            },
        .runs_on = distills,
        .rejected_by = "grad_logits",
    }),
};

}  // namespace
}  // namespace lossgrid
