// SPDX-License-Identifier: Apache-2.0
// `FoldedTable`: a table in which one cause on forty grids is one row. Rows that differ only in
// their subject, the last column, stand together as "SUBJECT and 39 more". As plain text and as
// GitHub's markdown, at most 40 rows and the number of further ones.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/core/process/terminal.h"

namespace lossgrid {

class FoldedTable {
 public:
  /// The last header is that of the subject. `may_leave_out`: columns that narrow lines do without,
  /// the least important first.
  FoldedTable(std::vector<std::string> headers, std::vector<std::string> may_leave_out);

  /// Adds a row. `cells` are without the subject; `is_bad` marks the first one.
  void add(std::vector<std::string> cells, std::string subject, bool is_bad);

  /// Returns lines that end in '\n'; empty when there are no rows. Long cells are shortened.
  std::string text(const TextStyle& style = {}) const;
  std::string markdown() const;

 private:
  struct Row {
    std::vector<std::string> cells;
    std::string subject;       // the first
    std::size_t subjects = 0;  // number of them
    bool is_bad = false;
  };

  std::vector<std::string> headers_;
  std::vector<std::string> may_leave_out_;
  std::vector<Row> rows_;
  std::map<std::vector<std::string>, std::size_t> places_;
};

/// Escapes `text` for a cell of a table in GitHub's markdown.
std::string markdown_cell(const std::string& text);

}  // namespace lossgrid
