// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/text/invariants_page.h"

#include <fmt/format.h>

#include "reports/record/invariants.h"

namespace lossgrid {

std::string format_invariants_page() {
  std::string page = "| invariant | condition |\n|---|---|\n";
  for (const InvariantEntry& entry : kInvariants) {
    page += fmt::format("| `{}` | {} |\n", entry.name, entry.condition);
  }
  return page;
}

}  // namespace lossgrid
