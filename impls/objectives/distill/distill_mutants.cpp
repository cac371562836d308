// SPDX-License-Identifier: Apache-2.0
// Mutants of the comparison in distillation: divergences in the other direction or with another
// beta, distributions over one vocab shard or through another map of logits, tokens that do not
// count.
#include <vector>

#include "harness/core/text.h"
#include "harness/loss/registry.h"
#include "impls/mutants/mutant.h"
#include "impls/objectives/distill/divergence_formulas.h"

namespace lossgrid {
namespace {

bool distills_over_shards(const LossProblem& problem) {
  return problem.has_teacher() && problem.grid.tp > 1;
}

bool has_two_sides(const LossProblem& problem) {
  return problem.terms().divergence.kind == Divergence::Kind::jsd;
}

bool has_uneven_sides(const LossProblem& problem) {
  return has_two_sides(problem) && problem.terms().divergence.beta != 0.5;
}

// --- directions and weights ---------------------------------------------------------------------

/// Returns `distill` with options changed by `change`; null if `change` returns false.
std::unique_ptr<Objective> distill_with(const ObjectiveSpec& spec,
                                        bool (*change)(ObjectiveOptions&)) {
  if (spec.kind != "distill") return nullptr;
  ObjectiveOptions options = spec.options;
  return change(options) ? find_objective(spec.kind).make(options) : nullptr;
}

std::string divergence_type(const ObjectiveOptions& options) {
  const auto type = options.find("kl_type");
  return type == options.end() ? "\"forward\"" : type->second;
}

double read_beta(const ObjectiveOptions& options) {
  const auto beta = options.find("jsd_beta");
  return beta == options.end() ? 0.5 : parse_number(beta->second, "jsd_beta");
}

bool swap_directions(ObjectiveOptions& options) {
  const std::string type = divergence_type(options);
  const bool has_one_side = type == "\"forward\"" || type == "\"reverse\"";
  if (!has_one_side || options.contains("zero_outside_topk")) return false;
  options["kl_type"] = type == "\"reverse\"" ? "\"forward\"" : "\"reverse\"";
  return true;
}

bool set_beta(ObjectiveOptions& options, double to) {
  if (divergence_type(options) != "\"jsd\"" || read_beta(options) == to) return false;
  options["jsd_beta"] = fmt::format("{}", to);
  return true;
}

/// Swaps the weights of the forward and the reverse side.
bool swap_weights(ObjectiveOptions& options) {
  const auto weight = options.find("mixed_kl_weight");
  if (divergence_type(options) != "\"mixed\"" || weight == options.end()) return false;
  weight->second = fmt::format("{}", 1 - parse_number(weight->second, "mixed_kl_weight"));
  return true;
}

bool drop_bound(ObjectiveOptions& options) {
  const auto bound = options.find("loss_max_clamp");
  if (bound == options.end() || bound->second == "null") return false;
  bound->second = "null";
  return true;
}

/// Compares both with their even mixture, with unchanged weights of both sides.
void divergence_from_even_mixture(const DistilledRows& rows, const RowSoftmax& p,
                                  const RowSoftmax& q, const DivergenceSums& out) {
  DistilledRows even = rows;
  even.divergence.beta = 0.5;
  rows_divergence(even, p, q, out);
}

// --- distributions of one shard -----------------------------------------------------------------

void make_room(Compared& compared) {
  const auto rows = static_cast<std::size_t>(compared.rows.student.rows);
  compared.shift.resize(rows);
  compared.sum.resize(rows);
}

void statistics_of_own_shard(const LogitsRows& rows, Compared& compared) {
  make_room(compared);
  std::vector<float> target(compared.shift.size());
  rows_statistics(rows, {compared.shift.data(), compared.sum.data(), target.data()});
}

void teacher_of_own_shard(Compared& compared) {
  statistics_of_own_shard(compared.rows.teacher, compared);
  compared.q = {compared.shift.data(), compared.sum.data()};
}

void student_of_own_shard(Compared& compared) {
  if (compared.rows.divergence.on_support()) {
    make_room(compared);
    rows_support_statistics(compared.rows, compared.shift.data(), compared.sum.data());
  } else {
    statistics_of_own_shard(compared.rows.student, compared);
  }
  compared.p = {compared.shift.data(), compared.sum.data()};
}

// --- the teacher's map of logits ----------------------------------------------------------------

/// Returns the temperature T of row r, by which the teacher's map divides.
float row_temperature(const DistilledRows& rows, std::int64_t r) {
  return 1 / rows.teacher.transforms[r].factor;
}

void divergence_times_square(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                             const DivergenceSums& out) {
  rows_divergence(rows, p, q, out);
  for (std::int64_t r = 0; r < rows.student.rows; ++r) {
    const float square = row_temperature(rows, r) * row_temperature(rows, r);
    out.of_teacher[r] *= square;
    out.of_student[r] *= square;
  }
}

void gradient_times_square(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                           const float* of_student, const float* gradient, void* out) {
  const std::int64_t count = rows.student.rows;
  std::vector<float> mean(of_student, of_student + count);
  std::vector<float> scaled(gradient, gradient + count);
  for (std::int64_t r = 0; r < count; ++r) {
    const float square = row_temperature(rows, r) * row_temperature(rows, r);
    mean[static_cast<std::size_t>(r)] /= square;
    scaled[static_cast<std::size_t>(r)] *= square;
  }
  rows_divergence_gradient(rows, p, q, mean.data(), scaled.data(), out);
}

// --- tokens -------------------------------------------------------------------------------------

void masked_tokens_count(const Objective& objective, const ObjectiveTokens& tokens,
                         const PackedBatch& batch, int, SequenceTable<const double> coefficients,
                         ObjectiveTotals<double> totals, const TokenGradients& grad) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  if (batch.denominators.valid_tokens == 0) return;
  const double weight = 1 / static_cast<double>(batch.denominators.valid_tokens);
  for (std::size_t t = 0; t < tokens.valid.size(); ++t) {
    if (tokens.valid[t] != 0 || tokens.real[t] == 0) continue;
    totals.sums[0] += weight * tokens.terms[RowTerm::divergence][t];
    grad.terms[RowTerm::divergence][t] = static_cast<float>(weight);
  }
}

/// Gives tokens whose loss is at its bounds the gradient of other tokens.
void bounds_pass_gradient(const Objective& objective, const ObjectiveTokens& tokens,
                          const PackedBatch& batch, int, SequenceTable<const double> coefficients,
                          ObjectiveTotals<double> totals, const TokenGradients& grad) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  if (batch.denominators.valid_tokens == 0) return;
  const double weight = 1 / static_cast<double>(batch.denominators.valid_tokens);
  for (std::size_t t = 0; t < tokens.valid.size(); ++t) {
    if (tokens.valid[t] != 0) grad.terms[RowTerm::divergence][t] = static_cast<float>(weight);
  }
}

bool distills_sampled_tokens(const LossProblem& problem) {
  return problem.objective_spec.kind == "on_policy_distill";
}

/// Gives all tokens the gradient of the difference of log-probabilities itself.
void gradient_without_teacher(const Objective& objective, const ObjectiveTokens& tokens,
                              const PackedBatch& batch, int,
                              SequenceTable<const double> coefficients,
                              ObjectiveTotals<double> totals, const TokenGradients& grad) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  if (batch.denominators.valid_tokens == 0) return;
  const double weight = 1 / static_cast<double>(batch.denominators.valid_tokens);
  for (std::size_t t = 0; t < tokens.valid.size(); ++t) {
    if (tokens.valid[t] != 0) grad.logprob[t] = static_cast<float>(weight);
  }
}

/// Divides by V as well, like a mean over all elements.
void mean_over_elements(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                        const DivergenceSums& out) {
  rows_divergence(rows, p, q, out);
  const auto vocab = static_cast<float>(rows.student.vocab);
  for (std::int64_t r = 0; r < rows.student.rows; ++r) {
    out.of_teacher[r] /= vocab;
    out.of_student[r] /= vocab;
  }
}

void gradient_over_elements(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                            const float* of_student, const float* gradient, void* out) {
  const auto vocab = static_cast<float>(rows.student.vocab);
  std::vector<float> mean(of_student, of_student + rows.student.rows);
  std::vector<float> divided(gradient, gradient + rows.student.rows);
  for (float& r : mean) r *= vocab;
  for (float& g : divided) g /= vocab;
  rows_divergence_gradient(rows, p, q, mean.data(), divided.data(), out);
}

const RegisteredMutant distill_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M103",
        .name = "distill_directions_swapped",
        .what = "the reverse divergence in the place of the forward one, and the other way round",
        .strategy = "fused",
        .objective = [](const ObjectiveSpec& spec) { return distill_with(spec, swap_directions); },
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M104",
        .name = "distill_beta_of_student",
        .what = "jsd_beta is the weight of the student, not of the teacher",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& spec) {
              return distill_with(spec, [](ObjectiveOptions& options) {
                return set_beta(options, 1 - read_beta(options));
              });
            },
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M104",
        .name = "distill_even_mixture",
        .what = "m = (p + q) / 2 whatever jsd_beta is, which the two sides have as their weight",
        .strategy = "fused",
        .change = [](Steps& s) { s.divergence = divergence_on_host<divergence_from_even_mixture>; },
        .runs_on = has_uneven_sides,
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M127",
        .name = "distill_mixed_weight_of_reverse",
        .what = "mixed_kl_weight is the weight of the reverse side, not of the forward one",
        .strategy = "fused",
        .objective = [](const ObjectiveSpec& spec) { return distill_with(spec, swap_weights); },
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M105",
        .name = "distill_teacher_of_shard",
        .what = "the teacher's softmax is over the own vocab shard",
        .strategy = "fused",
        .change = compare_by<teacher_of_own_shard>,
        .runs_on = distills_over_shards,
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M105",
        .name = "distill_student_of_shard",
        .what = "the student's softmax is over the own vocab shard",
        .strategy = "linear_ce",
        .change = compare_by<student_of_own_shard>,
        .runs_on = distills_over_shards,
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M106",
        .name = "distill_teacher_without_temperature",
        .what = "the teacher's logits are not divided by the temperature",
        .strategy = "cp_local",
        .teacher = [](Teacher& teacher, const LossProblem&) { teacher.transform = {}; },
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M106",
        .name = "distill_teacher_capped",
        .what = "the soft-cap of the student acts on the logits of the teacher, too",
        .strategy = "fused",
        .teacher =
            [](Teacher& teacher, const LossProblem& problem) {
              teacher.transform.softcap = problem.transform.softcap;
            },
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M106",
        .name = "distill_teacher_scaled",
        .what = "the logit scale of the student acts on the logits of the teacher, too",
        .strategy = "linear_materialized",
        .teacher =
            [](Teacher& teacher, const LossProblem& problem) {
              teacher.transform.scale = problem.transform.scale;
            },
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M107",
        .name = "distill_times_squared_temperature",
        .what = "loss and gradient times the square of the temperature",
        .strategy = "per_sequence",
        .change =
            [](Steps& s) {
              s.divergence = divergence_on_host<divergence_times_square>;
              s.gradient = divergence_gradient_on_host<gradient_times_square>;
            },
        .runs_on =
            [](const LossProblem& problem) {
              return problem.has_teacher() && !problem.teacher.transform.is_identity();
            },
        .seen_in = "NeMo-RL, cross-tokenizer distillation, by design",
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M111",
        .name = "distill_masked_tokens",
        .what = "tokens that are not trained on are distilled",
        .strategy = "fused",
        .change = [](Steps& s) { s.token_terms = masked_tokens_count; },
        .runs_on = distills,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M133",
        .name = "distill_loss_without_bound",
        .what = "the loss of a token has no upper bound, whatever loss_max_clamp is",
        .strategy = "cp_local",
        .objective = [](const ObjectiveSpec& spec) { return distill_with(spec, drop_bound); },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M134",
        .name = "distill_bounds_pass_gradient",
        .what = "tokens whose loss is 0 or loss_max_clamp keep their gradient",
        .strategy = "fused",
        .change = [](Steps& s) { s.token_terms = bounds_pass_gradient; },
        .runs_on =
            [](const LossProblem& problem) { return problem.terms().divergence.is_clamped(); },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M138",
        .name = "distill_gradient_without_teacher",
        .what = "the gradient of sampled tokens is 1, whatever the teacher",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.token_terms = gradient_without_teacher; },
        .runs_on = distills_sampled_tokens,
        .seen_in = "AReaL 1.0.4, joint distillation",
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M112",
        .name = "distill_mean_over_vocab",
        .what = "the mean is over the elements of the logits, not over tokens",
        .strategy = "cp_local",
        .change =
            [](Steps& s) {
              s.divergence = divergence_on_host<mean_over_elements>;
              s.gradient = divergence_gradient_on_host<gradient_over_elements>;
            },
        .runs_on = distills,
        .rejected_by = "divergence",
    }),
};

}  // namespace
}  // namespace lossgrid
