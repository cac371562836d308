// SPDX-License-Identifier: Apache-2.0
#include "reports/text/text_table.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "harness/core/error.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kIndent = 2;
constexpr std::size_t kLeastProse = 24;
constexpr std::size_t kLeastName = 8;
constexpr std::string_view kOneEllipsis = "\u2026";

void end_line(std::string& out) {
  while (!out.empty() && out.back() == ' ') out.pop_back();
  out += '\n';
}

}  // namespace

void TextTable::add_column(std::string header, Align align) {
  headers_.push_back(std::move(header));
  aligns_.push_back(align);
}

void TextTable::add_columns(std::initializer_list<const char*> headers, Align align) {
  for (const char* header : headers) add_column(header, align);
}

void TextTable::add_title(std::string_view title) {
  lines_.push_back({.kind = Line::Kind::title, .cells = {escape_controls(title)}});
}

void TextTable::add_whole_line(std::string_view line) {
  lines_.push_back({.kind = Line::Kind::whole, .cells = {escape_controls(line)}});
}

void TextTable::add_row(std::vector<std::string> cells) {
  if (cells.size() != headers_.size()) {
    throw Error(ErrorCode::internal, fmt::format("a table of {} columns got a row of {} cells",
                                                 headers_.size(), cells.size()));
  }
  for (std::string& cell : cells) cell = escape_controls(cell);
  std::vector<bool> bad(cells.size(), false);
  lines_.push_back({.kind = Line::Kind::row, .cells = std::move(cells), .bad = std::move(bad)});
}

void TextTable::mark_bad(std::size_t column) {
  lines_.back().bad.at(column) = true;
}

void TextTable::may_leave_out(std::vector<std::string> headers, std::string found_in) {
  may_leave_out_ = std::move(headers);
  found_in_ = std::move(found_in);
}

std::size_t TextTable::Layout::columns() const {
  std::size_t all = kIndent;
  for (std::size_t k = 0; k < widths.size(); ++k) {
    if (shown[k]) all += widths[k] + kGap;
  }
  return all - kGap;
}

/// Returns the least width of a column whose cells have `width`.
std::size_t TextTable::least_width(std::size_t column, std::size_t width) const {
  return aligns_[column] == Align::prose ? std::min(width, kLeastProse) : width;
}

TextTable::Layout TextTable::layout(std::size_t columns) const {
  Layout layout;
  for (const std::string& header : headers_) layout.widths.push_back(display_width(header));
  layout.shown.assign(headers_.size(), true);
  std::vector<std::size_t>& widths = layout.widths;
  for (const Line& line : lines_) {
    if (line.kind != Line::Kind::row) continue;
    for (std::size_t k = 0; k < widths.size(); ++k) {
      widths[k] = std::max(widths[k], display_width(line.cells[k]));
    }
  }
  if (columns == 0 || layout.columns() <= columns) return layout;

  const std::vector<std::size_t> full = widths;
  for (std::size_t k = 0; k < widths.size(); ++k) widths[k] = least_width(k, full[k]);
  for (const std::string& header : may_leave_out_) {
    if (layout.columns() <= columns) break;
    for (std::size_t k = 0; k < widths.size(); ++k) {
      if (headers_[k] == header) layout.shown[k] = false;
    }
  }
  for (std::size_t k = 0; k < widths.size(); ++k) {  // prose takes the rest
    const std::size_t used = layout.columns();
    if (used < columns) widths[k] = std::min(full[k], widths[k] + columns - used);
  }
  while (layout.columns() > columns) {  // names, the longest first
    std::size_t* longest = nullptr;
    for (std::size_t k = 0; k < widths.size(); ++k) {
      if (!layout.shown[k] || aligns_[k] != Align::left || widths[k] <= kLeastName) continue;
      if (longest == nullptr || widths[k] > *longest) longest = &widths[k];
    }
    if (longest == nullptr) break;
    --*longest;
  }
  return layout;
}

void TextTable::add_cells(const Line& line, const Layout& layout, const TextStyle& style,
                          std::string& out) const {
  std::vector<std::string> rest = line.cells;  // the unwritten part of each cell
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    out.append(kIndent, ' ');
    for (std::size_t k = 0; k < rest.size(); ++k) {
      if (!layout.shown[k]) continue;
      const std::size_t width = layout.widths[k];
      std::string cell = std::exchange(rest[k], "");
      if (aligns_[k] == Align::prose && display_width(cell) > width) {
        std::string lines = wrapped(cell, width);
        lines.pop_back();
        const std::size_t end = std::min(lines.find('\n'), lines.size());
        cell = lines.substr(0, end);
        rest[k] = lines.substr(std::min(end + 1, lines.size()));
        goes_on = goes_on || !rest[k].empty();
      } else if (aligns_[k] == Align::left) {
        cell = shortened_in_the_middle(cell, width);
      }
      const std::size_t taken = display_width(cell);
      const std::size_t blanks = width > taken ? width - taken : 0;
      if (aligns_[k] == Align::right) out.append(blanks, ' ');
      out += !line.bad.empty() && line.bad[k] ? style.bad(cell) : cell;
      if (aligns_[k] != Align::right) out.append(blanks, ' ');
      out.append(kGap, ' ');
    }
    end_line(out);
  }
}

std::string TextTable::left_out_note(const Layout& layout, std::size_t columns) const {
  std::vector<std::string> names;
  for (std::size_t k = 0; k < headers_.size(); ++k) {
    if (!layout.shown[k]) names.push_back(headers_[k]);
  }
  if (names.empty()) return "";
  return wrapped(fmt::format("columns left out: {} (the terminal has {} columns; {})",
                             join(names, ", "), columns, found_in_),
                 columns);
}

std::string TextTable::text(const TextStyle& style) const {
  if (std::none_of(lines_.begin(), lines_.end(),
                   [](const Line& line) { return line.kind == Line::Kind::row; })) {
    return "";
  }
  const Layout shape = layout(style.columns);
  std::string out;
  add_cells({.kind = Line::Kind::row, .cells = headers_}, shape, style, out);
  for (const Line& line : lines_) {
    if (line.kind == Line::Kind::row) {
      add_cells(line, shape, style, out);
      continue;
    }
    const bool cut = line.kind == Line::Kind::title && style.columns > 0;
    out += cut ? shortened(line.cells[0], style.columns) : line.cells[0];
    end_line(out);
  }
  return out + left_out_note(shape, style.columns);
}

std::string shortened_in_the_middle(std::string_view text, std::size_t width) {
  const std::size_t columns = display_width(text);
  if (columns <= width) return std::string(text);
  const std::size_t begin = width / 2;  // columns kept at the begin; the end gets the rest but one
  const std::size_t skipped = columns - (width - 1 - begin);
  std::string out;
  std::size_t column = 0;
  for (const char c : text) {
    if ((c & 0xC0) != 0x80 && column++ == begin) out += kOneEllipsis;
    if (column <= begin || column > skipped) out += c;
  }
  return out;
}

std::string fitted(const std::string& text, const TextStyle& style) {
  return style.columns == 0 ? text + '\n' : wrapped(text, style.columns);
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
