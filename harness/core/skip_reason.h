// SPDX-License-Identifier: Apache-2.0
// SkipReason: the reason for which something is not run. Functions that decide whether a thing runs
// return std::optional<SkipReason>; nullopt means that it runs.
#pragma once

#include <optional>
#include <string>

namespace lossgrid {

struct SkipReason {
  std::string text;  // one line
  // True if an implementation may refuse any case for this reason, so that no suite has to list the
  // refusal: a mutant that finds nothing to change.
  bool is_always_right = false;
};

/// Returns the text of `reason`; "" for nullopt, as in reports.
inline std::string text_of(const std::optional<SkipReason>& reason) {
  return reason ? reason->text : std::string();
}

}  // namespace lossgrid
