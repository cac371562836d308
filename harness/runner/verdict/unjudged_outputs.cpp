// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/verdict/unjudged_outputs.h"

#include "reports/record/unjudged.h"

namespace lossgrid {

std::map<std::string, std::string> unjudged_outputs_of(const TrialSetup& setup) {
  std::map<std::string, std::string> out;
  const ImplementationTraits traits = setup.implementation->describe();
  if (!traits.is_external || !traits.outputs.logprobs) return out;  // or it returns the loss alone
  const ObjectiveNeeds& needs = setup.objective->needs();
  for (const RowTerm term : kAllRowTerms) {
    if (!traits.outputs.has(term) || needs.terms.has(term)) continue;
    out[std::string(name(term))] = needs.reads(term) ? kValueAlone : kNotChecked;
  }
  return out;
}

}  // namespace lossgrid
