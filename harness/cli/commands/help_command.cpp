// SPDX-License-Identifier: Apache-2.0
// lossgrid help: the output of --help for the program or a command, or the manual page.
#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/command.h"
#include "harness/cli/text/man_page.h"
#include "harness/cli/text/output.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

ExitCode run(const CLI::App& app, const std::string& command) {
  if (command.empty()) {
    // By default the formatter would print the help of the chosen command, which is `help`.
    print_text(app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal));
    return ExitCode::ok;
  }
  require_known_command(app, command);
  print_text(app.get_subcommand(command)->help(app.get_name()));
  return ExitCode::ok;
}

}  // namespace

void add_help_command(CLI::App& app, Action& action) {
  auto name = std::make_shared<std::string>();
  auto is_man_page = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("help", "print this, or the help of a command");
  command->add_option("command", *name, "the command");
  command->add_flag("--man", *is_man_page,
                    "the help of all commands as a manual page: man -l FILE");
  command->callback([&app, name, is_man_page, &action] {
    action = [&app, name, is_man_page] {
      if (!*is_man_page) return run(app, *name);
      print_text(format_man_page(app));
      return ExitCode::ok;
    };
  });
}

}  // namespace lossgrid
