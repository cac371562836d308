// SPDX-License-Identifier: Apache-2.0
// The examples of impls/plugins pass whole suites, in this process: all of their cases, on grids
// that together cut every dimension.
#include <set>

#include "plugins.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;

struct WholeSuite {
  const char* name;
  const char* grids;
  std::set<std::string> passing;
};

void PrintTo(const WholeSuite& suite, std::ostream* out) {
  *out << suite.name;
}

class PluginWholeSuites : public Plugins, public ::testing::WithParamInterface<WholeSuite> {};

TEST_P(PluginWholeSuites, ArePassed) {
  std::string load;
  for (const char* library :
       {"vocab_parallel", "conventions", "sampled", "distill", "hidden_nll"}) {
    load += fmt::format(" --load '{}'", plugin_file(library));
  }
  const std::string report = scratch_.file("report.json");
  const ProcessResult result = run_lossgrid(
      scratch_, fmt::format("run{} --suite {} {} --impl c_vocab_parallel,c_entropy,c_mean_nll,"
                            "c_framework_nll,c_sampled,c_distill,cpp_hidden_nll --quiet "
                            "--report {}",
                            load, GetParam().name, GetParam().grids, report));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  std::set<std::string> passing;
  const ordered_json whole = full_report(report);
  for (const ordered_json& trial : whole.at("trials")) {
    const std::string name = trial["implementation"];
    if (trial["status"] == "passed") passing.insert(name.substr(0, name.find(':')));
  }
  EXPECT_EQ(passing, GetParam().passing);
}

INSTANTIATE_TEST_SUITE_P(
    Suites, PluginWholeSuites,
    ::testing::Values(WholeSuite{"ci",
                                 "--grid tp2cp2",
                                 {"c_vocab_parallel", "c_entropy", "c_mean_nll", "c_framework_nll",
                                  "c_sampled", "c_distill", "cpp_hidden_nll"}},
                      WholeSuite{"linear", "--grid tp2cp2,tp1cp2dp2pp2", {"cpp_hidden_nll"}},
                      WholeSuite{"distill", "--grid tp2cp2,tp1cp2dp2pp2", {"c_distill"}},
                      WholeSuite{"layouts",
                                 "--grid tp2cp2,tp2cp4:contiguous,tp1cp3:ulysses,tp2cp3:zigzag_row,"
                                 "tp1cp2:contiguous_sequence,tp1cp4:dynamic",
                                 {"c_vocab_parallel", "c_entropy", "c_mean_nll", "c_framework_nll",
                                  "c_sampled", "c_distill", "cpp_hidden_nll"}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace lossgrid
