// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/flags/unexpected_argument.h"

#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "harness/core/text.h"

namespace lossgrid {
namespace {

/// Returns the command that was chosen last on the command line: "history show" has two.
const CLI::App& innermost(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().back();
  return *command;
}

std::string command_path(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : command_path(*parent) + ' ' + command.get_name();
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

}  // namespace

std::string unexpected_argument_message(const CLI::App& app) {
  const CLI::App& command = innermost(app);
  const std::vector<std::string> rest = app.remaining(true);
  const auto is_option = [](const std::string& text) { return text.starts_with('-'); };
  const auto option = std::find_if(rest.begin(), rest.end(), is_option);
  const std::string see = fmt::format(" (see {} --help)", command_path(command));
  if (option == rest.end()) {
    return fmt::format("unexpected argument '{}'{}", rest.empty() ? "" : rest.front(), see);
  }
  const std::string given = option->substr(0, option->find('='));
  const std::string nearest = nearest_name(given, option_names(command));
  return fmt::format("unknown option {}{}{}", given,
                     nearest.empty() ? "" : "; did you mean " + nearest + "?", see);
}

}  // namespace lossgrid
