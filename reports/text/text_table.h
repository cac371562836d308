// SPDX-License-Identifier: Apache-2.0
// `TextTable`: aligned plain text. Columns are as wide as their widest cell, two blanks apart;
// title lines between rows take no part in the widths. Where lines have fewer columns (TextStyle),
// the table first breaks prose, then leaves out columns and names them below, and at last shortens
// names. Control characters are escaped, so that a cell stays in its line whatever it holds.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/process/terminal.h"
#include "harness/core/text.h"

namespace lossgrid {

enum class Align {
  left,
  right,
  prose,  // left, and broken between words where lines have too few columns
};

class TextTable {
 public:
  void add_column(std::string header, Align align);
  void add_columns(std::initializer_list<const char*> headers, Align align);
  /// Adds a line above the rows that follow; shortened where lines have fewer columns.
  void add_title(std::string_view title);
  /// Adds a line that stays whole however long it is: a command to be copied.
  void add_whole_line(std::string_view line);
  /// Requires as many cells as there are columns.
  void add_row(std::vector<std::string> cells);
  /// Marks this cell of the last row as one that did not pass.
  void mark_bad(std::size_t column);
  /// Names the columns that narrow lines do without, by their headers, the least important first,
  /// and the place where a reader finds them ("--report has all").
  void may_leave_out(std::vector<std::string> headers, std::string found_in);

  /// Returns lines that end in '\n', without trailing blanks; empty when there are no rows. The
  /// header line comes first. Every row is indented by two blanks.
  std::string text(const TextStyle& style = {}) const;

 private:
  struct Line {
    enum class Kind { row, title, whole } kind = Kind::row;
    std::vector<std::string> cells;  // of a row; else one
    std::vector<bool> bad = {};      // by cell
  };
  struct Layout {
    std::vector<std::size_t> widths;  // by column
    std::vector<bool> shown;

    std::size_t columns() const;  // of a line
  };

  Layout layout(std::size_t columns) const;
  std::size_t least_width(std::size_t column, std::size_t width) const;
  void add_cells(const Line& line, const Layout& layout, const TextStyle& style,
                 std::string& out) const;
  std::string left_out_note(const Layout& layout, std::size_t columns) const;

  std::vector<std::string> headers_;
  std::vector<Align> aligns_;
  std::vector<Line> lines_;
  std::vector<std::string> may_leave_out_;
  std::string found_in_;
};

/// Cuts `text` to at most `width` columns: its begin and its end, with one "…" between them.
std::string shortened_in_the_middle(std::string_view text, std::size_t width);

/// Returns `text` as a line, or broken at blanks where lines have fewer columns; each ended by
/// '\n'.
std::string fitted(const std::string& text, const TextStyle& style);

/// Breaks `text` at blanks into lines of at most `width` columns (a longer word has a line of its
/// own), each ended by '\n'. Empty for a text without words.
std::string wrapped(std::string_view text, std::size_t width);

}  // namespace lossgrid
