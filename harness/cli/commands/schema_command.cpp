// SPDX-License-Identifier: Apache-2.0
// lossgrid schema and lossgrid validate: the schema of a report, and the check of files against it.
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/command.h"
#include "harness/cli/text/output.h"
#include "reports/file/schema.h"
#include "reports/file/validate.h"

namespace lossgrid {
namespace {

constexpr std::size_t kMostLines = 20;

/// Prints the faults of `file`, or that it is valid. Returns true if it is valid.
bool validate(const std::string& file) {
  const Validation result = validate_file(file);
  const std::size_t count = result.problems.size();
  for (std::size_t k = 0; k < count && k < kMostLines; ++k) {
    print_message(fmt::format("{}: {}", file, result.problems[k]));
  }
  if (count > kMostLines) {
    print_message(fmt::format("{}: and {} more", file, count - kMostLines));
  }
  if (count == 0) {
    print("{}: valid {}{}\n", file, result.format,
          result.partial ? ", of a run that did not end" : "");
  }
  return count == 0;
}

ExitCode validate_all(const std::vector<std::string>& files) {
  bool valid = true;
  for (const std::string& file : files) valid = validate(file) && valid;
  return valid ? ExitCode::ok : ExitCode::bad_input;
}

}  // namespace

void add_schema_command(CLI::App& app, Action& action) {
  auto name = std::make_shared<std::string>("report");
  CLI::App* command = app.add_subcommand("schema", "print the JSON schema of a format");
  command->add_option("format", *name, "report, policy (default report)");
  command->callback([name, &action] {
    action = [name] {
      print_text(schema_text(*name));
      return ExitCode::ok;
    };
  });
}

void add_validate_command(CLI::App& app, Action& action) {
  auto files = std::make_shared<std::vector<std::string>>();
  CLI::App* command =
      app.add_subcommand("validate", "check reports and policies against their schema");
  command->add_option("files", *files, "reports, what runs that died left of them, policies")
      ->required();
  command->footer("Exit codes: 0 all are valid, 65 one is not; each line names place and rule.");
  command->callback([files, &action] { action = [files] { return validate_all(*files); }; });
}

}  // namespace lossgrid
