// SPDX-License-Identifier: Apache-2.0
// Bad input gets one clear line that names the thing and the rule, and the right exit code.
#include <algorithm>
#include <ostream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "process.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

struct BadInput {
  const char* arguments;
  int exit_code;
  const char* message;
};

/// Prints the parameter for the names of failing tests.
void PrintTo(const BadInput& input, std::ostream* out) {
  *out << input.arguments;
}

class BadInputs : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadInputs, OneLineAndTheRightCode) {
  const ScratchFolder scratch;
  const ProcessResult result = run_lossgrid(scratch, GetParam().arguments);
  EXPECT_EQ(result.exit_code, GetParam().exit_code) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr(GetParam().message));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_EQ(result.out, "");
}

INSTANTIATE_TEST_SUITE_P(
    All, BadInputs,
    ::testing::Values(
        BadInput{"", 64, "subcommand"},
        BadInput{"rnu", 64, "unknown command 'rnu'; did you mean 'run'?"},
        BadInput{"run --suite smoke --case lens=8", 64, "run needs either --suite or --case"},
        BadInput{"run --suite smoke --nonsense 3", 64,
                 "unknown option --nonsense (see lossgrid run --help)"},
        BadInput{"run --sutie smoke", 64,
                 "unknown option --sutie; did you mean --suite? (see lossgrid run --help)"},
        BadInput{"bench --suite smoke --max-secnds=3", 64, "did you mean --max-seconds?"},
        BadInput{"history show --file x --fromat json", 64,
                 "did you mean --format? (see lossgrid history show --help)"},
        BadInput{"run smoke", 64, "unexpected argument 'smoke' (see lossgrid run --help)"},
        BadInput{"help rnu", 64, "unknown command 'rnu'; did you mean 'run'?"},
        BadInput{"hlep", 64, "did you mean 'help'?"},
        BadInput{"run --suite smoke --transport thred", 64,
                 "--transport: unknown value 'thred'; did you mean 'thread'?"},
        BadInput{"compare a.json b.json --format markdwn", 64, "did you mean 'markdown'?"},
        BadInput{"run --suite smoke --backend cuda_emulatd", 65, "did you mean 'cuda_emulated'?"},
        BadInput{"run --suite smoke --seeds 0", 64, "--seeds"},
        BadInput{"run --suite smok", 65, "did you mean 'smoke'?"},
        BadInput{"run --suite smoke --impl fusd", 65, "did you mean 'fused'?"},
        BadInput{"run --suite smoke --impl fused:chunk=3", 65, "chunk_tokens"},
        BadInput{"run --suite smoke --grid tp2xp2", 65, "tp2xp2"},
        BadInput{"run --suite smoke --grid tp0cp2", 65, "tp"},
        BadInput{"run --case 'lens=4 vocab=8' --grid tp4cp64dp64", 65, "needs 16384 ranks"},
        BadInput{"run --case 'lens=4 vocab=8' --grid tp16", 65, "exceeds the vocabulary of 8"},
        BadInput{"run --case 'lens=4 vocb=8'", 65, "did you mean 'vocab'?"},
        BadInput{"run --case 'lens=4+-3'", 65, "lens"},
        BadInput{"run --case 'lens=4 vocab=0'", 65, "vocab"},
        BadInput{"run --case 'lens=4 vocab=99999999999999999999'", 65, "vocab"},
        BadInput{"run --case 'lens=9000000000000000000+9000000000000000000'", 65, "lens"},
        BadInput{"run --case 'lens=4 mask=012'", 65, "mask"},
        BadInput{"run --case 'objective=nlll lens=4'", 65, "nlll"},
        BadInput{"run --case 'lens=4' --report /proc/nowhere/report.json", 65, "/proc/nowhere"},
        BadInput{"run --case 'lens=4' --inject rank=1,kind=explode", 64, "explode"},
        BadInput{"run --case 'lens=4' --inject rank=1,kind=exit,at=forwrd", 64,
                 "did you mean 'forward'?"},
        BadInput{"run --case 'lens=4' --inject rank=1,kind=nan,at=plan", 64, "kind=nan needs at="},
        BadInput{"list everything", 64, "everything"},
        BadInput{"mutants --impl mutant/nothing", 65, "unknown mutant 'mutant/nothing'"},
        BadInput{"mutants --impl fused", 65, "unknown mutant 'fused'"},
        BadInput{"mutants --suite smoke --impl mutant/nothin_wrong", 65, "unknown mutant"},
        BadInput{"replay nowhere.safetensors", 65, "nowhere.safetensors"},
        BadInput{"replay tests/golden/nll_basic.safetensors --tp 4097", 64, "--tp"},
        BadInput{"replay tests/golden/dpo_sum.safetensors --dp 0", 64, "--dp"},
        BadInput{"replay tests/golden/dpo_sum.safetensors --microbatches 0", 64, "--microbatches"},
        BadInput{"run --case 'objective=dpo lens=4+4+4'", 65, "sequence 2 has no partner"},
        BadInput{"run --case 'objective=dpo lens=4+4 sample_mask=10'", 65, "sample mask"},
        BadInput{"run --case 'objective=clipped_pg objective.ratio_clip_mx=1'", 65,
                 "did you mean 'ratio_clip_max'?"},
        BadInput{"run --case 'objective=clipped_pg objective.use_cispo=true "
                 "objective.disable_ppo_ratio=true'",
                 65, "use_cispo"},
        BadInput{"run --case 'objective=clipped_pg objective.ratio_clip_c=0.5'", 65,
                 "ratio_clip_c"},
        BadInput{"run --case 'microbatches=0'", 65, "microbatches = 0"},
        BadInput{"run --case 'lens=4' --grid tp1dp65 --max-ranks 64", 65, "needs 65 ranks"},
        BadInput{"replay tests/golden/nll_basic.safetensors --out x.safetensors", 64, "--out"},
        BadInput{"export --case 'lens=4 vocab=8'", 64, "--out"},
        BadInput{"export --case 'lens=4 vocab=8' --out /proc/nowhere/b.safetensors", 65,
                 "/proc/nowhere"}));

void expect_refused(const std::string& content, const std::string& message) {
  const ScratchFolder scratch;
  std::ofstream(scratch.file("suite.json")) << content;
  const ProcessResult result = run_lossgrid(scratch, "run --suite " + scratch.file("suite.json"));
  EXPECT_EQ(result.exit_code, 65) << result.out;
  EXPECT_THAT(result.err, HasSubstr(message));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST(BadSuites, AreRefusedWithLineOrKey) {
  expect_refused("{\n  \"suite\": 1,\n  \"name\": ,\n}", "suite.json:3: malformed JSON");
  expect_refused(R"({"suite":1,"name":"x","summary":"","grids":["tp1cp1"],
                     "implementations":["fused"],"cases":[{"name":"a","vocb":8}]})",
                 "did you mean 'vocab'?");
  expect_refused(
      R"({"suite":1,"name":"x","summary":"","grids":["tp1cp1"],"implementations":["fusd"],
                     "cases":[{"name":"a","lens":"4"}]})",
      "did you mean 'fused'?");
  expect_refused("", "suite.json");
}

TEST(BadBundles, AreRefusedBeforeAnyWork) {
  const ScratchFolder scratch;
  const std::string good = read_all(LOSSGRID_SOURCE_DIR "/tests/golden/nll_basic.safetensors");
  const std::string path = scratch.file("bad.safetensors");
  const auto refusal = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    const ProcessResult result = run_lossgrid(scratch, "replay " + path);
    EXPECT_EQ(result.exit_code, 65) << result.out;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_THAT(refusal(good.substr(0, good.size() - 5)), HasSubstr("bad.safetensors"));
  EXPECT_THAT(refusal(good.substr(0, 6)), HasSubstr("bad.safetensors"));
  std::string absurd = good;
  absurd.replace(0, 8, "\xff\xff\xff\xff\xff\xff\xff\x7f");
  EXPECT_THAT(refusal(absurd), HasSubstr("header"));
}

TEST(Help, IsCompleteForEverySubcommand) {
  const ScratchFolder scratch;
  const ProcessResult top = run_lossgrid(scratch, "--help");
  EXPECT_EQ(top.exit_code, 0);
  EXPECT_THAT(top.out, HasSubstr("Exit codes: 0"));
  EXPECT_THAT(top.out, HasSubstr("NO_COLOR"));
  EXPECT_EQ(run_lossgrid(scratch, "help").out, top.out);
  for (const std::string command :
       {"run", "bench", "mutants", "replay", "export", "ab", "list", "help", "history"}) {
    EXPECT_THAT(top.out, HasSubstr(command));
    const ProcessResult help = run_lossgrid(scratch, command + " --help");
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(help.out, HasSubstr(command));
    const ProcessResult same = run_lossgrid(scratch, "help " + command);
    EXPECT_EQ(same.exit_code, 0);
    EXPECT_EQ(same.out, help.out);
  }
}

/// Runs every implementation that a command takes by default.
TEST(Help, NamesTheImplementationsThatRunByDefault) {
  const ScratchFolder scratch;
  const std::string all = "reference, cp_gather_logits, cp_local, fused, one_sweep, per_sequence";
  for (const char* command : {"run", "bench", "replay"}) {
    std::string words;
    std::istringstream help(run_lossgrid(scratch, std::string(command) + " --help").out);
    for (std::string word; help >> word;) words += word + ' ';
    EXPECT_THAT(words, HasSubstr(all)) << command;
  }
  const std::string ran = run_lossgrid(scratch, "run --case 'lens=4 vocab=8'").out;
  EXPECT_THAT(ran, HasSubstr("one_sweep"));
  EXPECT_THAT(ran, HasSubstr("6 passed"));
}

TEST(List, ShowsWhatThereIs) {
  const ScratchFolder scratch;
  EXPECT_THAT(run_lossgrid(scratch, "list suites").out, HasSubstr("upstream"));
  const std::string implementations = run_lossgrid(scratch, "list implementations").out;
  EXPECT_THAT(implementations, HasSubstr("cp_gather_logits"));
  EXPECT_THAT(implementations, ::testing::Not(HasSubstr("mutant")));
  EXPECT_THAT(run_lossgrid(scratch, "list objectives").out, HasSubstr("nll"));
  EXPECT_THAT(run_lossgrid(scratch, "list mutants").out,
              testing::ContainsRegex("mutant/roll_after_split  +M4  +fused: targets rolled"));
  const std::string keys = run_lossgrid(scratch, "list keys").out;
  EXPECT_THAT(keys, HasSubstr("bin_multiple"));
  EXPECT_THAT(keys, HasSubstr("Rules between keys:\n  hidden_values, weight_layout"));
}

}  // namespace
}  // namespace lossgrid
