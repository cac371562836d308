// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/value/value.h"

#include "harness/core/error.h"
#include "harness/loss/registry.h"

namespace lossgrid {

ValueOptions read_value_options(const OptionReader& reader) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  ValueOptions options;
  reader.read("scale", options.scale,
              {"factor of the loss", "NeMo-RL `scale`", kNotNegative, {"0.5"}});
  options.clip =
      reader
          .optional_number(
              "cliprange_value", std::nullopt,
              {"e: the larger loss of the value and of the value within e of its old value; null: "
               "the loss of the value alone",
               "verl `cliprange_value`, NeMo-RL `cliprange`, AReaL `value_eps_clip`",
               kNotNegative,
               {"0.5", "0.0"}})
          .value_or(kNone);
  const bool is_huber =
      reader.index("loss_type", 0, {"mse", "huber"},
                   {"`mse`: d²/2 of d = value - return; `huber`: delta (|d| - delta/2) where "
                    "|d| > delta",
                    "AReaL"}) == 1;
  const double delta =
      reader.number("huber_delta", 10, {"delta of `huber`", "AReaL", kAbove0, {"0.5", "1.5"}});
  if (is_huber) options.delta = delta;
  options.aggregation.counted = CountedSequences::trained;
  reader.read("loss_agg_mode", options.aggregation.mode,
              {"token-mean", "token-sum", "seq-mean-token-mean", "seq-mean-token-sum",
               "seq-mean-token-sum-norm"},
              {"the [aggregation](#aggregation) of tokens, but for `prompt-mean` and "
               "`token-mean-legacy`",
               "verl `loss_agg_mode`"});
  const std::optional<double> factor = reader.optional_number(
      "loss_scale_factor", std::nullopt,
      {"C of `seq-mean-token-sum-norm`", "verl `loss_scale_factor`", kAbove0, {"64.0"}});
  reader.require_all_known();
  const bool divides = options.aggregation.mode == AggregationMode::sequence_mean_token_sum_norm;
  if (factor.has_value() != divides) {
    throw_bad_input(
        "value: loss_scale_factor and loss_agg_mode = \"seq-mean-token-sum-norm\" need each other");
  }
  options.aggregation.scale_factor = factor.value_or(1);
  return options;
}

ObjectiveNeeds value_needs(const ValueOptions& options) {
  ObjectiveNeeds needs;
  needs.head = Head::value;
  needs.terms.add(RowTerm::logsumexp);
  needs.inputs[static_cast<int>(TokenInput::returns)] = true;
  needs.inputs[static_cast<int>(TokenInput::old_values)] = options.clips();
  needs.sequence_counts = !options.aggregation.over_tokens();
  return needs;
}

ValueOptions value_options_from(const ObjectiveOptions& options) {
  return read_value_options(OptionReader(options, "value"));
}

void add_explained_variance(Metrics& metrics) {
  for (const char* name : {"returns_mean", "returns_sq_mean", "residual_sq_mean", "values_mean"}) {
    if (!metrics.contains(name)) return;  // the implementation returns no metrics
  }
  Metric explained{Reduction::mean, 0, 0};
  if (const std::optional<double> returns = metrics["returns_mean"].value()) {
    const double spread = *metrics["returns_sq_mean"].value() - *returns * *returns;
    const double apart = *returns - *metrics["values_mean"].value();
    const double of_residuals = *metrics["residual_sq_mean"].value() - apart * apart;
    if (spread > 0) explained = {Reduction::mean, 1 - of_residuals / spread, 1};
  }
  metrics.try_emplace("explained_variance", explained);
}

namespace {

const Registered registered_value{objective_entry(
    "value", "distance of the values of a value head from returns: clipped squares or Huber's loss",
    read_value_options,
    [](const ValueOptions& options) { return std::make_unique<ValueObjective<>>(options); })};

}  // namespace
}  // namespace lossgrid
