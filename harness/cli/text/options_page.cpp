// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/text/options_page.h"

#include <vector>

#include <fmt/format.h>

#include "harness/core/text.h"
#include "harness/loss/registry.h"

namespace lossgrid {
namespace {

/// Returns "null", "0.2", "1" for 1.0, and a name without its quotes.
std::string shown(const std::string& json) {
  if (json.starts_with('"')) return json.substr(1, json.size() - 2);
  return json.ends_with(".0") ? json.substr(0, json.size() - 2) : json;
}

/// Returns a text as a cell of a table.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) {
    text.insert(at, 1, '\\');
  }
  return text;
}

/// Returns "`a`, `b`", the names of an option of an enumeration.
std::string choice_names(const OptionDescription& option) {
  std::vector<std::string> names;
  for (const std::string& choice : option.choices) {
    if (choice.starts_with('"')) names.push_back('`' + shown(choice) + '`');
  }
  return join(names, ", ");
}

}  // namespace

std::string format_options_page() {
  std::string page;
  for (const ObjectiveEntry* entry : objectives()) {
    page +=
        fmt::format("{}### `{}`\n\n{}.\n\n", page.empty() ? "" : "\n", entry->kind, entry->summary);
    page += "| option (default) | values | effect | elsewhere |\n|---|---|---|---|\n";
    for (const OptionDescription& option : entry->document()) {
      const std::string names = choice_names(option);
      page += fmt::format("| `{}` ({}) | {} | {} | {} |\n", option.name, shown(option.fallback),
                          names.empty() ? option.rule : names, cell(option.effect),
                          cell(option.upstream));
    }
  }
  return page;
}

}  // namespace lossgrid
