// SPDX-License-Identifier: Apache-2.0
// Options of implementations change a plan: an option that is read and then ignored leaves it as it
// is. Results are no help there, since all values of an option have the same results.
#include <string>

#include <gtest/gtest.h>

#include "harness/loss/registry.h"
#include "harness/planner/plan/plan.h"

namespace lossgrid {
namespace {

/// True if a plan of the implementation needs other memory, chunks or work on this case.
bool changes_plan(const std::string& case_text, const std::string& implementation,
                  const std::string& option) {
  const CaseSpec spec = parse_case(case_text);
  const PlanRow plain = plan_trial(spec, {}, implementation);
  const PlanRow with_option = plan_trial(spec, {}, implementation + ":" + option);
  if (!plain.skipped.empty() || !with_option.skipped.empty()) return false;
  bool changes =
      plain.chunks != with_option.chunks || plain.gradients_bytes != with_option.gradients_bytes;
  for (std::size_t k = 0; k < plain.phases.size(); ++k) {
    changes = changes || plain.phases[k].peak_bytes != with_option.phases[k].peak_bytes ||
              plain.phases[k].workspace_bytes != with_option.phases[k].workspace_bytes;
  }
  return changes;
}

TEST(PlanOptions, EachValueChangesAPlan) {
  int values = 0;
  for (const ImplementationEntry* entry : implementations(ImplementationKind::real)) {
    for (const auto& [option, drawn] : entry->draws) {
      // The path past the caches takes neither other memory nor other work; the option is seen in
      // the kernels' tests of LogitsRows.
      if (option == "stream_bytes") continue;
      for (const std::string& value : drawn) {
        const std::string text = option + "=" + value;
        EXPECT_TRUE(changes_plan("lens=16+8 vocab=64", entry->name, text) ||
                    changes_plan("lens=16+8 vocab=64 hidden=8 dtype=bf16", entry->name, text))
            << entry->name << ":" << text;
        ++values;
      }
    }
  }
  EXPECT_GE(values, 10);
}

}  // namespace
}  // namespace lossgrid
