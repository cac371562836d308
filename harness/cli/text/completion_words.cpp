// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/text/completion_words.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include <CLI/CLI.hpp>

#include "harness/cli/command.h"
#include "harness/cli/text/models.h"
#include "harness/core/text.h"
#include "harness/device/backend.h"
#include "harness/loss/registry.h"
#include "harness/planner/model/machine_file.h"
#include "reports/exports/exporter.h"

namespace lossgrid {
namespace {

using Words = std::vector<std::string>;

/// Returns the implementations that run by default, and other implementations that begin with
/// `begin` unless it is empty.
Words implementation_names(const std::string& begin) {
  Words names;
  for (const auto kind :
       {ImplementationKind::real, ImplementationKind::recorded, ImplementationKind::mutant,
        ImplementationKind::control, ImplementationKind::probe}) {
    const bool are_usual = kind == ImplementationKind::real || kind == ImplementationKind::recorded;
    if (begin.empty() && !are_usual) continue;
    for (const ImplementationEntry* entry : implementations(kind)) names.push_back(entry->name);
  }
  return names;
}

Words grids_of_suites() {
  std::set<std::string> grids;
  for (const std::string& name : suite_names()) {
    for (const Suite& suite : load_suites(name)) {
      for (const Grid& grid : suite.grids) grids.insert(format_grid(grid));
    }
  }
  return {grids.begin(), grids.end()};
}

Words backend_names() {
  Words names;
  for (const Backend backend : all_backends()) names.emplace_back(name(backend));
  return names;
}

Words export_names() {
  Words names;
  for (const Exporter* exporter : exporters()) names.push_back(exporter->name);
  return names;
}

Words model_names() {
  Words names;
  for (const ModelShape& model : load_models()) names.push_back(model.name);
  return names;
}

Words machine_names() {
  Words names;
  for (const Machine& machine : read_machines(machines_path())) names.push_back(machine.name);
  return names;
}

Words command_names(const CLI::App& app) {
  Words names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

/// Returns the values that the validator of an option allows: "TEXT:{text,json}".
Words allowed_by_type(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}', begin);
  return end == std::string::npos ? Words() : split(type.substr(begin + 1, end - begin - 1), ',');
}

/// Returns the values of an option or of a positional argument.
Words value_words(const CLI::App& app, const CLI::App& command, const CLI::Option& option,
                  const std::string& begin) {
  const std::map<std::string, std::function<Words()>> by_name = {
      {"--impl", [&] { return implementation_names(begin); }},
      {"--baseline", [&] { return implementation_names(begin); }},
      {"--suite", suite_names},
      {"--grid", grids_of_suites},
      {"--backend", backend_names},
      {"--to", export_names},
      {"--model", model_names},
      {"--machine", machine_names},
      {"list what", listable_kinds},
      {"help command", [&] { return command_names(app); }}};
  const bool is_flag = option.nonpositional();
  const auto values =
      by_name.find(is_flag ? option.get_name() : command.get_name() + ' ' + option.get_name(true));
  return values == by_name.end() ? allowed_by_type(option) : values->second();
}

Words flag_words(const CLI::App& command) {
  Words flags;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;  // hidden options
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

bool takes_values(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

const CLI::Option* find_flag(const CLI::App& command, const std::string& name) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->nonpositional() && option->check_name(name)) return option;
  }
  return nullptr;
}

/// Returns the elements of `words` that begin with `begin`, each with the prefix `before`.
Words beginning_with(const std::string& begin, const Words& words, const std::string& before = "") {
  Words found;
  for (const std::string& word : words) {
    if (word.starts_with(begin)) found.push_back(before + word);
  }
  return found;
}

/// Returns the completions of `begin`, of which only the part after the last comma is completed.
Words list_values(const CLI::App& app, const CLI::App& command, const CLI::Option& option,
                  const std::string& begin) {
  const std::size_t comma = begin.rfind(',');
  const std::size_t cut = comma == std::string::npos ? 0 : comma + 1;
  const std::string last = begin.substr(cut);
  return beginning_with(last, value_words(app, command, option, last), begin.substr(0, cut));
}

}  // namespace

Words completion_words(const CLI::App& app, Words words) {
  std::erase(words, "=");  // bash splits --flag=value into three words
  const std::string begin = words.empty() ? "" : words.back();
  const CLI::App* command = &app;
  const CLI::Option* flag = nullptr;  // flag whose value is next
  for (std::size_t k = 0; k + 1 < words.size(); ++k) {
    if (flag != nullptr) {
      flag = nullptr;
      continue;
    }
    if (const CLI::Option* known = find_flag(*command, words[k])) {
      if (takes_values(*known)) flag = known;
      continue;
    }
    for (const CLI::App* below : command->get_subcommands({})) {
      if (below->get_name() == words[k]) command = below;
    }
  }
  if (flag != nullptr) return list_values(app, *command, *flag, begin);
  if (begin.starts_with('-')) return beginning_with(begin, flag_words(*command));
  const Words below = command_names(*command);
  if (!below.empty()) return beginning_with(begin, below);
  for (const CLI::Option* option : command->get_options()) {
    if (option->get_positional()) return list_values(app, *command, *option, begin);
  }
  return {};
}

}  // namespace lossgrid
