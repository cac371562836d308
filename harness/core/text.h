// SPDX-License-Identifier: Apache-2.0
// Small text helpers that every layer needs: splitting, checked numbers, and the nearest name for
// messages about a misspelt one. All throw Error(bad_input) with a line that names `what`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lossgrid {

std::vector<std::string> split(std::string_view text, char separator);

std::string join(std::span<const std::string> parts, std::string_view separator);

/// A whole decimal integer in [low, high].
std::int64_t parse_integer(std::string_view text, std::string_view what, std::int64_t low,
                           std::int64_t high);

/// A finite decimal number.
double parse_number(std::string_view text, std::string_view what);

/// a * b, or bad_input when it exceeds 2^62.
std::int64_t checked_product(std::int64_t a, std::int64_t b, std::string_view what);

/// The candidate with the smallest edit distance to `name`, empty when none is near.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

/// "unknown WHAT 'NAME'; did you mean 'X'?" or, when nothing is near, "...; known: a, b, c".
std::string unknown_name_message(std::string_view what, std::string_view name,
                                 std::span<const std::string> candidates);

/// Shortest text that reads back as the same number ("0.1", "1e-05", "3").
std::string format_number(double value);

/// `text` with control characters as \n, \t or, as JSON has them, \u001b, and bytes that are no
/// UTF-8 as \xff: what a file or an argument holds then does nothing to the terminal that shows it.
/// The characters of `kept` stay.
std::string escape_controls(std::string_view text, std::string_view kept = "");

/// `word` as a shell reads it back: in quotes where it would take it for something else.
std::string shell_word(std::string_view word);

/// "1.5 MiB" and the like, for people.
std::string format_bytes(std::int64_t bytes);

}  // namespace lossgrid
