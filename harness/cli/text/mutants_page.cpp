// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/text/mutants_page.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "harness/loss/registry.h"

namespace lossgrid {
namespace {

/// Returns 4 for "M4"; mutants without a number come last.
int kind_number(const ImplementationEntry& entry) {
  if (entry.catalogue_id.empty()) return std::numeric_limits<int>::max();
  return std::stoi(entry.catalogue_id.substr(1));
}

/// Removes the prefix "mutant/" or "control/".
std::string_view short_name(const ImplementationEntry& entry) {
  return std::string_view(entry.name).substr(entry.name.find('/') + 1);
}

}  // namespace

std::string format_mutants_page() {
  std::vector<const ImplementationEntry*> mutants = implementations(ImplementationKind::mutant);
  std::stable_sort(mutants.begin(), mutants.end(),
                   [](const auto* a, const auto* b) { return kind_number(*a) < kind_number(*b); });
  std::string page =
      "| id | `mutant/...` | strategy, and what is wrong in it | where it happened | rejected by "
      "|\n|---|---|---|---|---|\n";
  for (const ImplementationEntry* entry : mutants) {
    page += fmt::format("| {} | `{}` | {} | {} | {} |\n", entry->catalogue_id, short_name(*entry),
                        entry->what, entry->seen_in, entry->rejected_by);
  }
  page += "\n| `control/...` | strategy, and what is done another way |\n|---|---|\n";
  for (const ImplementationEntry* entry : implementations(ImplementationKind::control)) {
    page += fmt::format("| `{}` | {} |\n", short_name(*entry), entry->what);
  }
  return page;
}

}  // namespace lossgrid
