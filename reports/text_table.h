// SPDX-License-Identifier: Apache-2.0
// Aligned plain text: columns as wide as their widest cell, two blanks apart, with title lines
// between rows that take no part in the widths. Control characters are escaped, so that a cell
// stays in its line whatever it holds. Knows nothing of trials.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lossgrid {

enum class Align { left, right };

class TextTable {
 public:
  void add_column(std::string header, Align align);
  /// A line of its own above the rows that follow.
  void add_title(std::string_view title);
  /// As many cells as there are columns.
  void add_row(std::vector<std::string> cells);

  /// Lines that end in '\n', without trailing blanks; empty when there are no rows. The header line
  /// comes first. Every row is indented by `indent` blanks.
  std::string text(std::size_t indent = 2) const;

 private:
  struct Line {
    bool is_title = false;
    std::vector<std::string> cells;  // of a title: one
  };

  std::vector<std::string> headers_;
  std::vector<Align> aligns_;
  std::vector<Line> lines_;
};

/// At most `width` columns of `text`, an ellipsis "..." in place of what is left out; line breaks
/// read as blanks.
std::string shortened(std::string_view text, std::size_t width);

/// `text` broken at blanks into lines of at most `width` columns (a longer word has a line of its
/// own), each ended by '\n'. Empty for a text without words.
std::string wrapped(std::string_view text, std::size_t width);

}  // namespace lossgrid
