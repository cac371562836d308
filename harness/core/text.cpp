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

}  // namespace lossgrid
