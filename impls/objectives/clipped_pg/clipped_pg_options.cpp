// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/clipped_pg_options.h"

#include "harness/core/error.h"
#include "harness/problem/batch/objective_inputs.h"
#include "impls/objectives/clipped_pg/option_rules.h"
#include "impls/objectives/objective_options.h"

namespace lossgrid {

void require_clipped_pg(std::initializer_list<OptionRule> rules) {
  for (const OptionRule& rule : rules) {
    if (rule.is_broken) throw_bad_input("clipped_pg: {}", rule.text);
  }
}

ClippedPgOptions ClippedPgOptions::from(const ObjectiveOptions& options) {
  return read(OptionReader(options, "clipped_pg"));
}

ClippedPgOptions ClippedPgOptions::read(const OptionReader& reader) {
  ClippedPgOptions o;
  o.AggregationOptions::read(reader);
  o.PolicyLossOptions::read(reader);
  o.RatioOptions::read(reader);
  o.KlOptions::read(reader);
  o.WeightOptions::read(reader);
  o.RejectionOptions::read(reader);
  o.SelectionOptions::read(reader);
  reader.require_all_known();
  require_aggregation_fits(o);
  require_policy_loss_fits(o);
  require_ratios_fit(o);
  require_kl_fits(o);
  require_proximal_fits(o);
  require_weights_fit(o);
  require_rejection_fits(o);
  require_selection_fits(o);
  return o;
}

ObjectiveNeeds ClippedPgOptions::needs() const {
  ObjectiveNeeds needs;
  needs.inputs[static_cast<int>(TokenInput::advantages)] = true;
  needs.inputs[static_cast<int>(TokenInput::generation_logprobs)] = true;
  add_aggregation_needs(*this, needs);
  add_policy_needs(*this, needs);
  add_ratio_needs(*this, needs);
  add_kl_needs(*this, needs);
  add_weight_needs(*this, needs);
  add_selection_needs(*this, needs);
  return needs;
}

}  // namespace lossgrid
