// SPDX-License-Identifier: Apache-2.0
// lossgrid list: what there is to run.
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/command.h"
#include "harness/core/text.h"
#include "harness/loss/registry.h"
#include "harness/problem/case_keys.h"

namespace lossgrid {
namespace {

void list_suites() {
  for (const std::string& name : suite_names()) {
    for (const Suite& suite : load_suites(name)) {
      fmt::print("{:<24} {} cases, {} grids, {} implementations: {}\n", name, suite.cases.size(),
                 suite.grids.size(), suite.implementations.size(), suite.summary);
    }
  }
}

void list_implementations() {
  for (const ImplementationEntry* entry : implementations(ImplementationKind::real)) {
    const Description description = entry->make({})->describe();
    fmt::print("{:<18} {}\n", entry->name, description.summary);
  }
}

void list_mutants() {
  for (const auto kind : {ImplementationKind::mutant, ImplementationKind::control}) {
    for (const ImplementationEntry* entry : implementations(kind)) {
      fmt::print("{:<44} {:<4} {}\n", entry->name, entry->catalogue_id, entry->what);
    }
  }
}

void list_objectives() {
  for (const ObjectiveEntry* entry : objectives()) {
    fmt::print("{:<18} {}\n", entry->kind, entry->summary);
  }
}

void list_keys() {
  fmt::print("{:<18} {:<10} {}\n", "objective", "nll",
             "see lossgrid list objectives; options as objective.NAME=VALUE");
  for (const CaseKey& key : case_keys()) {
    fmt::print("{:<18} {:<10} {}\n", key.name, key.get(CaseSpec()), key.help);
  }
}

struct Kind {
  const char* name;
  void (*print)();
};

constexpr Kind kKinds[] = {{"suites", list_suites},
                           {"implementations", list_implementations},
                           {"objectives", list_objectives},
                           {"mutants", list_mutants},
                           {"keys", list_keys}};

ExitCode run(const std::string& what) {
  std::vector<std::string> known;
  for (const Kind& kind : kKinds) {
    if (what == kind.name) {
      kind.print();
      return ExitCode::ok;
    }
    known.emplace_back(kind.name);
  }
  throw Error(ErrorCode::usage, unknown_name_message("list", what, known));
}

}  // namespace

void add_list_command(CLI::App& app, Action& action) {
  auto what = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "list", "print the suites, implementations, objectives, mutants or case keys");
  command->add_option("what", *what, "suites, implementations, objectives, mutants or keys")
      ->required();
  command->callback([what, &action] { action = [what] { return run(*what); }; });
}

}  // namespace lossgrid
