// SPDX-License-Identifier: Apache-2.0
// Properties of a reader that every input must have. A broken one aborts, which libFuzzer takes for
// a crash and whose input it keeps.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "harness/core/error.h"

namespace lossgrid {

/// Aborts with `rule` unless it holds.
inline void require(bool holds, std::string_view rule) {
  if (holds) return;
  std::fprintf(stderr, "broken property: %.*s\n", static_cast<int>(rule.size()), rule.data());
  std::abort();
}

/// Returns the result of `read`, or nothing for an input that it refuses as bad_input with a
/// message. Any other exception ends the process.
template <typename Read>
auto taken(Read&& read) -> std::optional<decltype(read())> {
  try {
    return read();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) std::fprintf(stderr, "%s\n", error.what());
    require(error.code() == ErrorCode::bad_input, "an input is refused as bad_input");
    require(!std::string_view(error.what()).empty(), "a refusal has a message");
    return std::nullopt;
  }
}

}  // namespace lossgrid
