// SPDX-License-Identifier: Apache-2.0
// The examples of impls/plugins pass whole suites, in this process. Suites ci and distill on grids
// that cut every dimension, without those of more than four ranks.
#include "plugins.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;

struct WholeSuite {
  const char* name;
  const char* grids;  // "" for all of the suite
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
  for (const ordered_json& trial : full_report(report).at("trials")) {
    const std::string name = trial["implementation"];
    if (trial["status"] == "passed") passing.insert(name.substr(0, name.find(':')));
  }
  EXPECT_EQ(passing, GetParam().passing);
}

INSTANTIATE_TEST_SUITE_P(
    Suites, PluginWholeSuites,
    ::testing::Values(WholeSuite{"ci",
                                 "--grid tp2cp2,tp4cp1",
                                 {"c_vocab_parallel", "c_entropy", "c_mean_nll", "c_framework_nll",
                                  "c_sampled", "c_distill"}},
                      WholeSuite{"linear", "", {"cpp_hidden_nll"}},
                      WholeSuite{"distill", "--grid tp2cp2,tp1cp2dp2pp2", {"c_distill"}},
                      WholeSuite{"layouts",
                                 "",
                                 {"c_vocab_parallel", "c_entropy", "c_mean_nll", "c_framework_nll",
                                  "c_sampled", "c_distill", "cpp_hidden_nll"}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace lossgrid
