// SPDX-License-Identifier: Apache-2.0
// Libraries that are refused: one line that names the file and the rule, and the exit code of bad
// input, whether they are opened here or in a launcher.
#include "plugins.h"

namespace lossgrid {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class PluginLoading : public PluginsInBothPlaces {
 protected:
  void expect_refused(const std::string& file, const std::string& reason) {
    const char* isolate = GetParam() == Place::isolated ? " --isolate" : "";
    const ProcessResult result =
        run_lossgrid(scratch_, fmt::format("list implementations --load '{}'{}", file, isolate));
    EXPECT_EQ(result.exit_code, 65) << file;
    EXPECT_THAT(result.err, AllOf(HasSubstr(file), EndsWith(reason + "\n")));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
};

TEST_P(PluginLoading, RefusesLibrariesThatBreakARule) {
  const auto refused = [](const char* rule) { return plugin_file(std::string("refused_") + rule); };
  expect_refused(refused("ABI_VERSION"), "it has version 2 of the plugin ABI, this program has 1");
  expect_refused(refused("NO_SYMBOL"),
                 "no plugin of lossgrid, it has no symbol lossgrid_plugin_entry");
  expect_refused(refused("NO_FUNCTION"), "an implementation has no function 'backward'");
  expect_refused(refused("SMALL_STRUCT"),
                 "struct_size of lossgrid_implementation is 64, version 1 of the ABI has 72");
  expect_refused(refused("SMALL_DESCRIPTION"),
                 "struct_size of lossgrid_description is 120, version 1 of the ABI has 128");
  expect_refused(refused("NAME_CLASH"), "there is an implementation 'fused' already");
  expect_refused(refused("UNKNOWN_WORD"),
                 "'refused': unknown rows 'shards'; did you mean 'shard'?");
  expect_refused(refused("MISSING_DEPENDENCY"), "undefined symbol: function_of_no_library");
  expect_refused(refused("BAD_OPTION"), "'refused': option chunk = many is no int");
  expect_refused(refused("RETURNS_NULL"), "lossgrid_plugin_entry returns null");
}

TEST_P(PluginLoading, RefusesFilesThatAreNoLibraries) {
  const std::string text = scratch_.file("text.so");
  write_all(text, "no library, but a text that is long enough for the header of one, or longer\n");
  expect_refused(text, "invalid ELF header");
  expect_refused(scratch_.file("none.so"), "there is no such file");
}

INSTANTIATE_TEST_SUITE_P(Places, PluginLoading,
                         ::testing::Values(Place::in_process, Place::isolated), name_of_place);

TEST_F(Plugins, IsolateNeedsALibrary) {
  const ProcessResult result = run_lossgrid(scratch_, "run --isolate --suite smoke");
  EXPECT_EQ(result.exit_code, 64);
  EXPECT_THAT(result.err, HasSubstr("--isolate needs --load FILE.so"));
}

TEST_F(Plugins, AreListedWithTheValuesOfTheirOptions) {
  const ProcessResult result =
      run_lossgrid(scratch_, fmt::format("list implementations --load '{}' --load '{}'",
                                         plugin_file("hidden_nll"), plugin_file("vocab_parallel")));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(fmt::format("cpp_hidden_nll     external, {}: rows of the pack "
                                                "from hidden states, one gather over CP "
                                                "(block: 4, 1, 3)\n",
                                                plugin_file("hidden_nll"))));
  EXPECT_THAT(result.out, HasSubstr("c_vocab_parallel   external, "));
}

TEST_F(Plugins, OptionsAreChecked) {
  const std::string arguments = "--case 'lens=3 vocab=8 hidden=4'";
  run("hidden_nll", Place::in_process, "cpp_hidden_nll:block=2", arguments, 65);
  EXPECT_THAT(result_.err, HasSubstr("option block = 2 is not one that 'cpp_hidden_nll' offers"));
  run("hidden_nll", Place::in_process, "cpp_hidden_nll:block=one", arguments, 65);
  EXPECT_THAT(result_.err, HasSubstr("option block = one is no int"));
  run("hidden_nll", Place::in_process, "cpp_hidden_nll:blocks=1", arguments, 65);
  EXPECT_THAT(result_.err, HasSubstr("unknown option of 'cpp_hidden_nll' 'blocks'"));
}

TEST_F(Plugins, ReproductionLoadsThemAgain) {
  auto trials =
      run("wrong_twins", Place::isolated, "twin_half_gradient", "--case 'lens=3 vocab=8'", 10);
  EXPECT_THAT(trials["twin_half_gradient"].at("reproduce").get<std::string>(),
              StartsWith(fmt::format("lossgrid run --load {} --isolate --impl twin_half_gradient ",
                                     plugin_file("wrong_twins"))));
}

}  // namespace
}  // namespace lossgrid
