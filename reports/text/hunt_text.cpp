// SPDX-License-Identifier: Apache-2.0
#include "reports/text/hunt_text.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "harness/core/text.h"
#include "reports/text/text_table.h"

namespace lossgrid {
namespace {

std::string format_found(const FoundRecord& found, std::size_t number, const TextStyle& style) {
  std::string out =
      fmt::format("\n{}. {}: {} {} of {}\n", number, found.check, found.trials,
                  found.trials == 1 ? "trial" : "trials", join(found.implementations, ", "));
  const std::size_t end = found.reason.find("; ");
  out += fitted("   " + found.reason.substr(0, end) + (end < found.reason.size() ? "; ..." : ""),
                style);
  out +=
      fmt::format("   {} {}\n", found.is_shrunk ? "smallest: " : "one of them:", found.reproduce);
  if (found.reproduce != found.first) out += fmt::format("   first:     {}\n", found.first);
  return out;
}

std::string cell(const HuntRecord& hunt, const std::string& a, const std::string& b) {
  for (const PairsRecord& pairs : hunt.pairs) {
    const bool is_it = (pairs.first == a && pairs.second == b);
    if (is_it) return fmt::format("{} of {}", pairs.decided, pairs.drawn);
  }
  return "";
}

}  // namespace

std::string format_hunt(const HuntRecord& hunt, const TextStyle& style) {
  const std::int64_t trials = hunt.passed + hunt.bad;
  std::string out = fmt::format(
      "hunt: seed {}, {} cases ({} refused), {} trials in {:.0f} s ({:.0f} a second): {} passed, "
      "{} failed, {} skipped\n",
      hunt.seed, hunt.cases, hunt.refused, trials, hunt.seconds,
      static_cast<double>(trials) / std::max(hunt.seconds, 1e-3), hunt.passed, hunt.bad,
      hunt.skipped);
  for (std::size_t k = 0; k < hunt.found.size(); ++k) {
    out += format_found(hunt.found[k], k + 1, style);
  }
  return out;
}

std::string format_pairs(const HuntRecord& hunt, const TextStyle& style) {
  if (hunt.pairs.empty()) return "";
  TextTable table;
  table.add_column("pairs that decided", Align::left);
  for (const char* kind : kSettingKinds) table.add_column(kind, Align::right);
  for (const char* first : kSettingKinds) {
    std::vector<std::string> row{first};
    for (const char* second : kSettingKinds) row.push_back(cell(hunt, first, second));
    table.add_row(std::move(row));
  }
  return table.text(style);
}

}  // namespace lossgrid
