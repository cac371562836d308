// SPDX-License-Identifier: Apache-2.0
#include "reports/record/invariants.h"

#include <algorithm>
#include <string_view>
#include <tuple>

namespace lossgrid {
namespace {

std::vector<InvariantEntry>& registered_invariants() {
  static std::vector<InvariantEntry> entries;
  return entries;
}

}  // namespace

RegisteredInvariant::RegisteredInvariant(const InvariantEntry& entry) : InvariantEntry(entry) {
  registered_invariants().push_back(entry);
}

std::vector<InvariantEntry> invariants() {
  std::vector<InvariantEntry> entries = registered_invariants();
  const auto key = [](const InvariantEntry& entry) {
    return std::tuple(entry.place, std::string_view(entry.name));
  };
  std::sort(entries.begin(), entries.end(),
            [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return entries;
}

}  // namespace lossgrid
