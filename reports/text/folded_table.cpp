// SPDX-License-Identifier: Apache-2.0
#include "reports/text/folded_table.h"

#include <algorithm>
#include <utility>

#include "harness/core/error.h"
#include "reports/text/text_table.h"

namespace lossgrid {
namespace {

constexpr std::size_t kMostRows = 40;
constexpr std::size_t kCellWidth = 60;
constexpr std::size_t kSubjectWidth = 70;

std::string subject_cell(const std::string& subject, std::size_t subjects) {
  const std::string more = subjects > 1 ? fmt::format(" and {} more", subjects - 1) : "";
  return shortened(subject, kSubjectWidth) + more;
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string out = "|";
  for (const std::string& text : cells) out += ' ' + (text.empty() ? "" : text + ' ') + '|';
  return out + '\n';
}

}  // namespace

FoldedTable::FoldedTable(std::vector<std::string> headers, std::vector<std::string> may_leave_out)
    : headers_(std::move(headers)), may_leave_out_(std::move(may_leave_out)) {}

void FoldedTable::add(std::vector<std::string> cells, std::string subject, bool is_bad) {
  const auto [at, is_new] = places_.emplace(cells, rows_.size());
  if (is_new) {
    rows_.push_back({.cells = std::move(cells), .subject = std::move(subject), .is_bad = is_bad});
  }
  ++rows_[at->second].subjects;
}

std::string FoldedTable::text(const TextStyle& style) const {
  TextTable table;
  for (const std::string& header : headers_) table.add_column(header, Align::left);
  table.may_leave_out(may_leave_out_, "--format json has all");
  for (std::size_t k = 0; k < std::min(rows_.size(), kMostRows); ++k) {
    std::vector<std::string> cells;
    for (const std::string& cell : rows_[k].cells) cells.push_back(shortened(cell, kCellWidth));
    cells.push_back(subject_cell(rows_[k].subject, rows_[k].subjects));
    table.add_row(std::move(cells));
    if (rows_[k].is_bad) table.mark_bad(0);
  }
  std::string out = table.text(style);
  if (rows_.size() > kMostRows) out += fmt::format("  and {} more\n", rows_.size() - kMostRows);
  return out;
}

std::string FoldedTable::markdown() const {
  if (rows_.empty()) return "";
  std::string out = markdown_row(headers_) + '|';
  for (std::size_t k = 0; k < headers_.size(); ++k) out += "---|";
  out += '\n';
  for (std::size_t k = 0; k < std::min(rows_.size(), kMostRows); ++k) {
    std::vector<std::string> cells;
    for (const std::string& cell : rows_[k].cells) cells.push_back(markdown_cell(cell));
    cells.push_back(markdown_cell(subject_cell(rows_[k].subject, rows_[k].subjects)));
    out += markdown_row(cells);
  }
  if (rows_.size() > kMostRows) out += fmt::format("\nand {} more\n", rows_.size() - kMostRows);
  return out;
}

std::string markdown_cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

}  // namespace lossgrid
