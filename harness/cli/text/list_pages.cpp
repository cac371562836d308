// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/text/list_pages.h"

#include <fmt/format.h>

#include "harness/comm/cp_layout.h"
#include "reports/record/invariants.h"

namespace lossgrid {

std::string format_invariants_page() {
  std::string page = "| invariant | condition |\n|---|---|\n";
  for (const InvariantEntry& entry : invariants()) {
    page += fmt::format("| `{}` | {} |\n", entry.name, entry.condition);
  }
  return page;
}

std::string format_layouts_page() {
  std::string page = "| layout | rows of CP rank r | padding |\n|---|---|---|\n";
  for (const CpLayoutRules& rules : kCpLayouts) {
    page += fmt::format("| `{}` | {} | {} |\n", rules.name, rules.rows, rules.padded);
  }
  return page;
}

}  // namespace lossgrid
