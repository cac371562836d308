// SPDX-License-Identifier: Apache-2.0
#include "reports/text_table.h"

#include <algorithm>
#include <sstream>

#include "harness/core/error.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

constexpr std::size_t kGap = 2;

/// Continuation bytes of UTF-8 take no column.
std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

void end_line(std::string& out) {
  while (!out.empty() && out.back() == ' ') out.pop_back();
  out += '\n';
}

}  // namespace

void TextTable::add_column(std::string header, Align align) {
  headers_.push_back(std::move(header));
  aligns_.push_back(align);
}

void TextTable::add_title(std::string_view title) {
  lines_.push_back({true, {escape_controls(title)}});
}

void TextTable::add_row(std::vector<std::string> cells) {
  if (cells.size() != headers_.size()) {
    throw Error(ErrorCode::internal, fmt::format("a table of {} columns got a row of {} cells",
                                                 headers_.size(), cells.size()));
  }
  for (std::string& cell : cells) cell = escape_controls(cell);
  lines_.push_back({false, std::move(cells)});
}

std::string TextTable::text(std::size_t indent) const {
  std::vector<std::size_t> widths;
  for (const std::string& header : headers_) widths.push_back(display_width(header));
  bool any_row = false;
  for (const Line& line : lines_) {
    if (line.is_title) continue;
    any_row = true;
    for (std::size_t k = 0; k < widths.size(); ++k) {
      widths[k] = std::max(widths[k], display_width(line.cells[k]));
    }
  }
  if (!any_row) return "";

  std::string out;
  const auto add_cells = [&](const std::vector<std::string>& cells) {
    out.append(indent, ' ');
    for (std::size_t k = 0; k < cells.size(); ++k) {
      const std::size_t blanks = widths[k] - display_width(cells[k]);
      if (k > 0) out.append(kGap, ' ');
      if (aligns_[k] == Align::right) out.append(blanks, ' ');
      out += cells[k];
      if (aligns_[k] == Align::left) out.append(blanks, ' ');
    }
    end_line(out);
  };
  add_cells(headers_);
  for (const Line& line : lines_) {
    if (line.is_title) {
      out += line.cells[0];
      end_line(out);
    } else {
      add_cells(line.cells);
    }
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t width) {
  std::string out(text);
  std::replace(out.begin(), out.end(), '\n', ' ');
  if (display_width(out) <= width) return out;
  constexpr std::string_view kEllipsis = "...";
  std::size_t bytes = 0;
  for (std::size_t columns = 0; bytes < out.size(); ++bytes) {
    if ((out[bytes] & 0xC0) == 0x80) continue;
    if (++columns > width - kEllipsis.size()) break;
  }
  return out.substr(0, bytes) + std::string(kEllipsis);
}

std::string wrapped(std::string_view text, std::size_t width) {
  std::istringstream words{std::string(text)};
  std::string out;
  std::size_t columns = 0;
  for (std::string word; words >> word;) {
    const std::size_t word_columns = display_width(word);
    if (columns > 0 && columns + 1 + word_columns > width) {
      out += '\n';
      columns = 0;
    }
    if (columns > 0) {
      out += ' ';
      ++columns;
    }
    out += word;
    columns += word_columns;
  }
  if (!out.empty()) out += '\n';
  return out;
}

}  // namespace lossgrid
