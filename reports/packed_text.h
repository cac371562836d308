// SPDX-License-Identifier: Apache-2.0
// Text that is compressed and then written in 64 characters, so that it can stand in a file of
// another kind whatever it says: none of its characters is left.
#pragma once

#include <string>
#include <string_view>

namespace lossgrid {

/// gzip (RFC 1952) without a time or name, in base64 (RFC 4648) without line ends. The same text
/// always gives the same result. Throws internal when there is no memory.
std::string gzip_base64(std::string_view text);

}  // namespace lossgrid
