// SPDX-License-Identifier: Apache-2.0
// Right examples of the Python package pass whole suites: they are right in every case that they
// take. Grids are few, since a trial in Python takes 50 ms: all cases of the suites run, those of
// ci on four ranks only. No example has a teacher, so suite distill is left to the plugins
// (tests/plugins/whole_suites_test.cpp), and value_loss takes no case of ci.
#include <map>

#include <gmock/gmock.h>

#include "python.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;

class ExternalWholeSuites : public WithTorch {
 protected:
  /// Runs a suite on grids and expects that nothing fails and that all of `names` pass something.
  void expect_passed(const std::string& suite, const std::string& grids,
                     const std::vector<std::string>& names) const {
    std::vector<std::string> files;
    std::string list;
    for (const std::string& name : names) {
      files.push_back(kExamples + name + ".py");
      list += (list.empty() ? "" : ",") + name;
    }
    const std::string report = scratch_.file(suite + ".json");
    const ProcessResult result =
        run_loaded("run", files,
                   fmt::format("--suite {} --grid {} --impl {} --quiet --report {}", suite, grids,
                               list, report));
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    std::map<std::string, int> passed;
    for (const ordered_json& trial : records_of(report, "trials")) {
      passed[trial["implementation"]] += trial["status"] == "passed" ? 1 : 0;
    }
    for (const std::string& name : names) EXPECT_GT(passed[name], 0) << name << " of " << suite;
    // The entropy's gradient is compared in each of these suites.
    EXPECT_THAT(result.out, ::testing::Not(::testing::HasSubstr("gradient not")));
  }
};

TEST_F(ExternalWholeSuites, ExamplesPassCi) {
  expect_passed("ci", "tp2cp2",
                {"vocab_parallel", "cp_gather", "entropy", "linear", "grpo_loss", "bigram_engine"});
}

// Grids of these suites together cut all dimensions.
TEST_F(ExternalWholeSuites, ExamplesPassLinear) {
  expect_passed("linear", "tp2cp2,tp2cp2sp,tp1cp2dp2pp2", {"linear", "bigram_engine"});
}

TEST_F(ExternalWholeSuites, ExamplesPassGrpo) {
  expect_passed("grpo", "tp2cp2,tp1cp2dp2", {"cp_gather", "entropy", "grpo_loss"});
}

TEST_F(ExternalWholeSuites, ExamplesPassLayouts) {
  expect_passed("layouts",
                "tp2cp2sp:contiguous,tp1cp3:ulysses,tp1cp2:zigzag_row,tp1cp2:contiguous_sequence,"
                "tp1cp4:dynamic",
                {"entropy"});
  expect_passed("layouts", "tp2cp2",
                {"vocab_parallel", "cp_gather", "entropy", "linear", "grpo_loss", "value_loss"});
}

}  // namespace
}  // namespace lossgrid
