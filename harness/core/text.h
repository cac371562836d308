// SPDX-License-Identifier: Apache-2.0
// Text helpers of every layer: splitting, checked numbers, escaping, and the nearest name for
// messages about a misspelt one. Failures throw bad_input with a line that names `what`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lossgrid {

std::vector<std::string> split(std::string_view text, char separator);

std::string join(std::span<const std::string> parts, std::string_view separator);

/// Reads a whole decimal integer in [low, high].
std::int64_t parse_integer(std::string_view text, std::string_view what, std::int64_t low,
                           std::int64_t high);

/// Reads a finite decimal number.
double parse_number(std::string_view text, std::string_view what);

/// Returns a * b. Throws bad_input if it exceeds 2^62.
std::int64_t checked_product(std::int64_t a, std::int64_t b, std::string_view what);

/// Returns the candidate with the smallest edit distance to `name`; "" if no candidate is near.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

/// Returns "unknown WHAT 'NAME'; did you mean 'X'?" or, if nothing is near, "...; known: a, b, c".
std::string unknown_name_message(std::string_view what, std::string_view name,
                                 std::span<const std::string> candidates);

/// Returns the shortest text that reads back as the same number ("0.1", "1e-05", "3").
std::string format_number(double value);

/// Returns `text` with control characters as \n, \t or, as in JSON, \u001b, and bytes that are not
/// UTF-8 as \xff, so that contents of files and arguments cannot control the terminal. Characters
/// in `kept` are not escaped.
std::string escape_controls(std::string_view text, std::string_view kept = "");

/// Returns `word` as a shell reads it back: in quotes if it has special characters.
std::string shell_word(std::string_view word);

/// Returns "1.5 MiB" and the like, for people.
std::string format_bytes(std::int64_t bytes);

/// Counts columns: continuation bytes of UTF-8 take none.
std::size_t display_width(std::string_view text);

/// Cuts `text` to at most `width` columns, ending in "..." if the text was longer; line breaks
/// become blanks.
std::string shortened(std::string_view text, std::size_t width);

}  // namespace lossgrid
