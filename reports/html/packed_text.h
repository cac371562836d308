// SPDX-License-Identifier: Apache-2.0
// Text as gzip (RFC 1952), for files, and in 64 characters, so that it can stand in a file of
// another kind whatever it says: none of its characters is left.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lossgrid {

/// Compressed, without a time or name: the same text always gives the same bytes. Throws internal
/// when there is no memory.
std::string gzip(std::string_view text);

/// The same in base64 (RFC 4648) without line ends.
std::string gzip_base64(std::string_view text);

/// Whether the bytes begin as those of gzip do.
bool is_gzip(std::string_view bytes);

/// The text of one or several gzip files behind each other. Throws bad_input that says what is
/// wrong: damaged, cut off, or a text of more than `most_bytes`.
std::string gunzip(std::string_view bytes, std::size_t most_bytes = std::size_t{1} << 32);

}  // namespace lossgrid
