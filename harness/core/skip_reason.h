// SPDX-License-Identifier: Apache-2.0
// SkipReason: the reason for which something is not run. Functions that decide whether it runs
// return std::optional<SkipReason>; nullopt means that it does.
#pragma once

#include <optional>
#include <string>

namespace lossgrid {

struct SkipReason {
  std::string text;  // one line
  // True if the refusal of an implementation is right wherever it happens, so that no suite has to
  // state it: by a mutant that has nothing to change.
  bool is_always_right = false;
};

/// Returns the text of `reason`, "" for nullopt: the form of reports, in which "" stands for none.
inline std::string text_of(const std::optional<SkipReason>& reason) {
  return reason ? reason->text : std::string();
}

}  // namespace lossgrid
