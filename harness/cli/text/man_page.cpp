// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/text/man_page.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "harness/core/process/environment.h"

namespace lossgrid {
namespace {

/// Returns `text` with characters escaped that are special in the markup of man.
std::string escaped(const std::string& text) {
  std::string out;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && (c == '.' || c == '\'')) out += "\\&";
    begins_line = c == '\n';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

/// Returns lines that are not filled.
std::string as_it_stands(const std::string& text) {
  return text.empty() ? "" : fmt::format(".nf\n{}\n.fi\n", escaped(text));
}

std::string format_option(const CLI::Option& option) {
  const bool is_flag = option.get_items_expected_max() == 0;
  const std::string name =
      option.nonpositional() ? option.get_name(false, true) : option.get_name(true);
  const std::string type =
      is_flag || option.get_type_name().empty() ? "" : " " + option.get_type_name();
  return fmt::format(".TP\n.B {}{}\n{}\n", escaped(name), escaped(type),
                     escaped(option.get_description()));
}

std::string format_options(const CLI::App& command) {
  std::string out;
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : command.get_options()) {
      const bool is_shown = !option->get_group().empty();
      if (is_shown && option->get_positional() == positional) out += format_option(*option);
    }
  }
  return out;
}

std::string format_command(const CLI::App& command, const std::string& parent) {
  const std::string name = parent + ' ' + command.get_name();
  std::string out = fmt::format(".SS {}\n{}\n{}", escaped(name), escaped(command.get_description()),
                                format_options(command) + as_it_stands(command.get_footer()));
  for (const CLI::App* below : command.get_subcommands({})) out += format_command(*below, name);
  return out;
}

}  // namespace

std::string format_man_page(const CLI::App& app) {
  std::string out = fmt::format(
      ".TH LOSSGRID 1 \"\" \"lossgrid {}\" \"User Commands\"\n"
      ".ad l\n"
      ".SH NAME\n"
      "lossgrid \\- verify and measure distributed LLM losses\n"
      ".SH SYNOPSIS\n"
      ".B lossgrid\n"
      "COMMAND [OPTIONS]\n"
      ".SH DESCRIPTION\n"
      "{}\n"
      ".SH OPTIONS\n"
      "{}"
      ".SH COMMANDS\n",
      kVersion, escaped(app.get_description()), format_options(app));
  for (const CLI::App* command : app.get_subcommands({})) {
    out += format_command(*command, app.get_name());
  }
  return out + ".SH NOTES\n" + as_it_stands(app.get_footer());
}

}  // namespace lossgrid
