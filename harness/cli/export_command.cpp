// SPDX-License-Identifier: Apache-2.0
// lossgrid export: a case as a bundle, for other programs and for replay.
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/command.h"
#include "harness/problem/bundle.h"
#include "harness/runner/memory_plan.h"
#include "harness/runner/problem_cache.h"
#include "harness/verify/expected.h"

namespace lossgrid {
namespace {

struct ExportFlags {
  std::string text;
  std::string out;
  bool expected = false;
};

ExitCode run(const ExportFlags& flags) {
  const CaseSpec spec = parse_case(flags.text);
  const std::string too_big = why_too_big(case_memory_bytes(spec));
  if (!too_big.empty()) throw Error(ErrorCode::not_enough_memory, too_big);
  const PreparedProblem prepared = prepare(make_problem(spec));
  std::optional<BundleResults> expected;
  if (flags.expected) {
    expected = expected_results(
        *prepared.problem, make_truth(*prepared.problem, prepared.rows, *prepared.objective, 0));
  }
  write_bundle(flags.out, *prepared.problem, expected);
  fmt::print("{}: {} sequences, {} tokens, vocabulary {}, {}\n", flags.out,
             prepared.problem->sequences(), prepared.problem->tokens(), spec.vocab,
             name(spec.dtype));
  return ExitCode::ok;
}

}  // namespace

void add_export_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* command = app.add_subcommand("export", "write the packed batch of a case as a bundle");
  command->add_option("--case", flags->text, "the case as \"key=value ...\"")->required();
  command->add_option("--out", flags->out, "the bundle file to write")->required();
  command->add_flag("--expected", flags->expected,
                    "add the float64 truth as expected.loss, .logprobs, .grad_logits and metrics");
  command->callback([flags, &action] { action = [flags] { return run(*flags); }; });
}

}  // namespace lossgrid
