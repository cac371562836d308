// SPDX-License-Identifier: Apache-2.0
// Every name that the judge can give as the reason of a failure, a check, an invariant, a verdict
// on bits or a cost, has a mutant that it has to reject: without the check the mutant survives.
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "harness/loss/registry.h"
#include "harness/runner/mutation.h"
#include "harness/runner/run.h"
#include "harness/runner/verdict/cost_merge.h"
#include "reports/record/invariants.h"

namespace lossgrid {
namespace {

/// Names that no mutant of a built-in implementation can fail, with the reason.
const std::map<std::string, std::string> kWithoutAMutant{
    {"tp_size", "nobody claims it: it is reported and fails no trial"},
    {"scale_identity", "a property of the framework of a case (tests/runner/verdict)"},
    {"evaluation_as_training", "of loaded code (tests/external/examples_test.cpp)"},
    {"plan_frees_its_memory", "of plugins (tests/plugins)"},
    {"same_gradient_on_replicas", "of engines (tests/external/replica_engines_test.cpp)"},
    {"same_loss_on_replicas", "of engines (tests/external/replica_engines_test.cpp)"},
    {"gradient_slices_cover", "of engines (tests/external/replica_engines_test.cpp)"},
};

/// Returns a name as the catalogue may have it: all metrics are compared by the same code.
std::string kind_of(const std::string& name) {
  return name.starts_with("metric.") ? "metric" : name;
}

std::set<std::string> rejecting_names() {
  std::set<std::string> names;
  for (const ImplementationEntry* entry : implementations(ImplementationKind::mutant)) {
    for (const std::string& name : alternatives(entry->rejected_by)) names.insert(kind_of(name));
  }
  return names;
}

/// Returns the invariants and the names in the records of right implementations, which pass all of
/// them: every case of the suites on one grid.
std::set<std::string> judged_names() {
  std::set<std::string> names;
  for (const char* file : {"ci", "linear", "layouts"}) {
    Suite suite = read_suite(std::string(LOSSGRID_SOURCE_DIR "/cases/") + file + ".json");
    suite.grids = {parse_grid("tp1cp1")};
    suite.implementations = {"cp_local", "linear_ce"};
    suite.skips.reset();
    ProblemCache problems;
    run_suites({suite}, RunOptions(), problems, [&](const TrialRecord& trial) {
      for (const CheckRecord& check : trial.checks) names.insert(kind_of(check.name));
      for (const InvariantRecord& invariant : trial.invariants) names.insert(invariant.name);
      for (const DeterminismRecord& bits : trial.determinism) names.insert(bits.name);
      return true;
    });
  }
  for (const InvariantEntry& entry : invariants()) names.insert(entry.name);
  names.insert(kComparedCostNames.begin(), kComparedCostNames.end());
  return names;
}

TEST(NamedChecks, EveryOneHasAMutantThatItRejects) {
  const std::set<std::string> rejecting = rejecting_names();
  const std::set<std::string> judged = judged_names();
  for (const std::string& name : judged) {
    EXPECT_TRUE(rejecting.contains(name) || kWithoutAMutant.contains(name))
        << "no mutant is rejected by '" << name << "'";
  }
  // The trials reach all kinds of names.
  for (const char* name : {"loss", "metric", "grad_logits_bias", "grad_hidden_l2", "grad_bias_bias",
                           "guard_bands_intact", "gradients_finite", "run_to_run", "traffic"}) {
    EXPECT_TRUE(judged.contains(name)) << name;
  }
  // And no mutant waits for a name that does not exist.
  const std::set<std::string> statuses{"error", "skipped"};
  for (const std::string& name : rejecting) {
    EXPECT_TRUE(judged.contains(name) || statuses.contains(name)) << name;
  }
}

}  // namespace
}  // namespace lossgrid
