// SPDX-License-Identifier: Apache-2.0
#include "harness/core/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "harness/core/error.h"

namespace lossgrid {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

std::int64_t parse_integer(std::string_view text, std::string_view what, std::int64_t low,
                           std::int64_t high) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc::result_out_of_range) {
    throw_bad_input("{} = {} does not fit 64 bits", what, text);
  }
  if (status != std::errc() || end != text.data() + text.size()) {
    throw_bad_input("{} = '{}' is not a whole number", what, text);
  }
  if (value < low || value > high) {
    throw_bad_input("{} = {} is outside [{}, {}]", what, value, low, high);
  }
  return value;
}

double parse_number(std::string_view text, std::string_view what) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    throw_bad_input("{} = '{}' is not a finite number", what, text);
  }
  return value;
}

std::int64_t checked_product(std::int64_t a, std::int64_t b, std::string_view what) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 62;
  if (a < 0 || b < 0) throw_bad_input("{}: a size is negative ({} x {})", what, a, b);
  if (b != 0 && a > kLimit / b) throw_bad_input("{}: {} x {} exceeds 2^62", what, a, b);
  return a * b;
}

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  std::string best;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best_distance <= std::max<std::size_t>(2, name.size() / 3) ? best : std::string();
}

std::string unknown_name_message(std::string_view what, std::string_view name,
                                 std::span<const std::string> candidates) {
  const std::string nearest = nearest_name(name, candidates);
  if (!nearest.empty())
    return fmt::format("unknown {} '{}'; did you mean '{}'?", what, name, nearest);
  return fmt::format("unknown {} '{}'; known: {}", what, name, join(candidates, ", "));
}

std::string format_number(double value) {
  std::array<char, 40> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return std::string(buffer.data(), result.ptr);
}

namespace {

/// Returns the size in bytes of the UTF-8 character at the begin of `text`; 0 if there is no valid
/// character.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char lead = byte(0);
  const std::size_t bytes = lead < 0x80                   ? 1
                            : lead >= 0xC2 && lead < 0xE0 ? 2
                            : lead >= 0xE0 && lead < 0xF0 ? 3
                            : lead >= 0xF0 && lead < 0xF5 ? 4
                                                          : 0;
  if (bytes > text.size()) return 0;
  for (std::size_t k = 1; k < bytes; ++k) {
    if ((byte(k) & 0xC0) != 0x80) return 0;
  }
  // Overlong: fewer bytes could encode the character.
  const bool is_overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  return is_overlong ? 0 : bytes;
}

/// Returns true for control characters of ASCII and of the C1 range, which are two bytes.
bool is_control(std::string_view character) {
  const auto last = static_cast<unsigned char>(character.back());
  if (character.size() == 1) return last < 0x20 || last == 0x7F;
  return character[0] == '\xC2' && last < 0xA0;
}

std::string escaped_control(std::string_view character) {
  if (character == "\n") return "\\n";
  if (character == "\t") return "\\t";
  // The last byte of a C1 control is its code point.
  return fmt::format("\\u{:04x}", static_cast<unsigned char>(character.back()));
}

}  // namespace

std::string escape_controls(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(1, bytes));
    text.remove_prefix(character.size());
    if (bytes == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(character[0]));
    } else if (is_control(character) && kept.find(character) == std::string_view::npos) {
      out += escaped_control(character);
    } else {
      out += character;
    }
  }
  return out;
}

std::string shell_word(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(word);
  }
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
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

}  // namespace lossgrid
