// SPDX-License-Identifier: Apache-2.0
// Packed text: gzip (RFC 1952) for files, and base64 of it, which can be embedded in a file of
// another kind: none of the characters of the text is left.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lossgrid {

/// Compresses `text`, without a time or name: the same text always gives the same bytes. Throws
/// internal when there is no memory.
std::string gzip(std::string_view text);

/// Compresses `text` and encodes it in base64 (RFC 4648) without line ends.
std::string gzip_base64(std::string_view text);

/// True if the bytes begin with the magic number of gzip.
bool is_gzip(std::string_view bytes);

/// Unpacks one or several gzip files behind each other. Throws bad_input for a file that is damaged
/// or cut off, or a text of more than `most_bytes`.
std::string gunzip(std::string_view bytes, std::size_t most_bytes = std::size_t{1} << 32);

}  // namespace lossgrid
