// SPDX-License-Identifier: Apache-2.0
// Mutants of value heads: gradients of a head that every TP rank has, clipped losses, rows and
// metrics.
#include <algorithm>
#include <cmath>

#include "harness/device/memory/host_view.h"
#include "impls/mutants/mutant.h"
#include "impls/objectives/value/value.h"

namespace lossgrid {
namespace {

/// True if several TP ranks each have the whole head.
bool has_copies(const LossProblem& problem) {
  return problem.from_hidden() && problem.vocab_ranks() < problem.grid.tp;
}

void sum_of_copies(Device& device, Communicator& tp, bool sp, std::span<float> partial,
                   std::span<float> own) {
  Steps().reduce_grad_hidden(device, tp, sp, partial, own);
}

void share_of_copy(Device& device, Communicator& tp, bool sp, std::span<float> partial,
                   std::span<float> own) {
  Steps().share_grad_hidden(device, tp, sp, partial, own);
  const HostView view(device, sp ? own.data() : partial.data(), (sp ? own : partial).size_bytes());
  for (float& x : view.as<float>()) x /= static_cast<float>(tp.size());
  view.write_back();
}

/// Returns `value` with other formulas if `applies` to its options, else null.
template <class Formulas>
std::unique_ptr<Objective> with_value_formulas(const ObjectiveSpec& spec,
                                               bool (*applies)(const ValueOptions&)) {
  if (spec.kind != "value") return nullptr;
  const ValueOptions options = value_options_from(spec.options);
  if (!applies(options)) return nullptr;
  return std::make_unique<ValueObjective<Formulas>>(options);
}

bool clips_values(const ValueOptions& options) {
  return options.clips();
}

struct SmallerLoss : ValueFormulas {
  static double share(double whole, double clipped) {
    return 1 - ValueFormulas::share(whole, clipped);
  }
};

struct TiesOfWholeLoss : ValueFormulas {
  static double share(double whole, double clipped) { return whole >= clipped ? 1.0 : 0.0; }
};

struct HuberNotContinuous : ValueFormulas {
  static double beyond(double size, double delta) { return delta * size; }
};

/// Uses the row of a token as the value of the state before the token.
ShiftedBatch rows_of_tokens_themselves(const PackedBatch& batch) {
  PackedBatch own = batch;
  own.ahead = 0;
  return shift_targets(own);
}

bool is_value_problem(const LossProblem& problem) {
  return problem.objective_spec.kind == "value";
}

/// Objective that computes the metrics of each part separately.
class ValueMetricsOfParts : public ValueObjective<> {
 public:
  using ValueObjective::ValueObjective;

  ObjectiveResult finish(const PackedBatch& batch, SequenceTable<const double> sums,
                         SequenceTable<const double> coefficients,
                         ObjectiveTotals<const double> totals) const override {
    ObjectiveResult result = ValueObjective::finish(batch, sums, coefficients, totals);
    add_explained_variance(result.metrics);
    return result;
  }
};

class ValueExtremesFromZero : public ValueObjective<> {
 public:
  using ValueObjective::ValueObjective;

  ObjectiveResult finish(const PackedBatch& batch, SequenceTable<const double> sums,
                         SequenceTable<const double> coefficients,
                         ObjectiveTotals<const double> totals) const override {
    ObjectiveResult result = ValueObjective::finish(batch, sums, coefficients, totals);
    Metric& most = result.metrics["values_max"];
    most.amount = std::max(most.amount, 0.0);
    Metric& least = result.metrics["values_min"];
    least.amount = std::min(least.amount, 0.0);
    return result;
  }
};

template <class Wrong>
std::unique_ptr<Objective> in_place_of_value(const ObjectiveSpec& spec) {
  if (spec.kind != "value") return nullptr;
  return std::make_unique<Wrong>(value_options_from(spec.options));
}

const RegisteredMutant value_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M179",
        .name = "grad_hidden_of_copies_summed",
        .what = "a head that every TP rank has: d hidden is summed over TP once more",
        .strategy = "linear_ce",
        .change = [](Steps& s) { s.share_grad_hidden = sum_of_copies; },
        .runs_on = has_copies,
        .seen_in = "Megatron-LM's gather from sequence-parallel regions, unless verl's bridge asks "
                   "for none",
        .rejected_by = "grad_hidden",
    }),
    RegisteredMutant({
        .catalogue_id = "M179",
        .name = "grad_hidden_of_copies_divided",
        .what = "a head that every TP rank has: d hidden is divided by the ranks",
        .strategy = "linear_ce",
        .change = [](Steps& s) { s.share_grad_hidden = share_of_copy; },
        .runs_on = has_copies,
        .rejected_by = "grad_hidden",
    }),
    RegisteredMutant({
        .catalogue_id = "M228",
        .name = "value_smaller_loss",
        .what = "value: the smaller one of the loss and the clipped one",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_value_formulas<SmallerLoss>(spec, clips_values);
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M229",
        .name = "value_of_token_itself",
        .what = "value: row t for the state before token t, which row t - 1 has",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.shift = rows_of_tokens_themselves; },
        .runs_on = is_value_problem,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M230",
        .name = "huber_not_continuous",
        .what =
            "value: delta times the distance beyond the bend of a Huber loss, without - delta / 2",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_value_formulas<HuberNotContinuous>(
                  spec, [](const ValueOptions& options) { return std::isfinite(options.delta); });
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M231",
        .name = "value_ties_not_halved",
        .what = "value: the whole gradient where loss and clipped loss are equal",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_value_formulas<TiesOfWholeLoss>(spec, clips_values);
            },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M232",
        .name = "explained_variance_of_microbatches",
        .what = "value: the mean of the microbatches' explained variances",
        .strategy = "cp_local",
        .objective = in_place_of_value<ValueMetricsOfParts>,
        .rejected_by = "metric.explained_variance",
    }),
    RegisteredMutant({
        .catalogue_id = "M233",
        .name = "extremes_of_values_from_zero",
        .what = "value: the extremes of values begin at 0",
        .strategy = "fused",
        .objective = in_place_of_value<ValueExtremesFromZero>,
        .seen_in = "NeMo-RL, of an empty microbatch",
        .rejected_by = "metric.values_max",
    }),
};

}  // namespace
}  // namespace lossgrid
