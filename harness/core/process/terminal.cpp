// SPDX-License-Identifier: Apache-2.0
#include "harness/core/process/terminal.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include <sys/ioctl.h>
#include <unistd.h>

namespace lossgrid {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

std::size_t terminal_columns() {
  const std::string_view text = variable("COLUMNS");
  std::size_t columns = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), columns);
  if (columns > 0 && status == std::errc() && end == text.data() + text.size()) return columns;
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

std::size_t TextStyle::columns_up_to(std::size_t most) const {
  return columns == 0 ? most : std::min(columns, most);
}

std::string TextStyle::bad(std::string_view text) const {
  if (!has_colours) return std::string(text);
  return std::string(kRed) + std::string(text) + std::string(kPlain);
}

TextStyle stdout_style() {
  TextStyle style;
  if (isatty(STDOUT_FILENO) == 0) return style;
  style.columns = terminal_columns();
  const std::string_view terminal = variable("TERM");
  style.has_colours = variable("NO_COLOR").empty() && !terminal.empty() && terminal != "dumb";
  return style;
}

}  // namespace lossgrid
