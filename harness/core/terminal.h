// SPDX-License-Identifier: Apache-2.0
// The look of text where it goes: how many columns a line has, and whether colours show. Files and
// pipes get all columns and no colours, so that they read the same everywhere.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lossgrid {

/// Begin and end of what TextStyle::bad makes red.
inline constexpr std::string_view kRed = "\033[31m";
inline constexpr std::string_view kPlain = "\033[0m";

struct TextStyle {
  std::size_t columns = 0;  // of a line; 0: as many as it takes
  bool has_colours = false;

  /// `most`, or less where lines have fewer columns.
  std::size_t columns_up_to(std::size_t most) const;
  /// `text` in red, for what did not pass; as it is without colours.
  std::string bad(std::string_view text) const;
};

/// The style of stdout. On a terminal: its columns, or those of the variable COLUMNS; and colours
/// unless NO_COLOR is set and not empty, or TERM is "dumb" or not set. Elsewhere the default.
TextStyle stdout_style();

}  // namespace lossgrid
