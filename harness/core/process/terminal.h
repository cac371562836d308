// SPDX-License-Identifier: Apache-2.0
// TextStyle: columns and colours of text on a terminal. Files and pipes get unlimited columns and
// no colours, so that they read the same everywhere.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lossgrid {

/// Escape sequences around red text.
inline constexpr std::string_view kRed = "\033[31m";
inline constexpr std::string_view kPlain = "\033[0m";

struct TextStyle {
  std::size_t columns = 0;  // columns of a line; 0: unlimited
  bool has_colours = false;

  /// Returns `most`, or less if lines have fewer columns.
  std::size_t columns_up_to(std::size_t most) const;
  /// Returns `text` in red, for failures; unchanged without colours.
  std::string bad(std::string_view text) const;
};

/// Returns the style of stdout. On a terminal: its columns, or the value of the variable COLUMNS;
/// colours unless NO_COLOR is set and not empty, or TERM is "dumb" or not set. For files and pipes:
/// the default style.
TextStyle stdout_style();

}  // namespace lossgrid
