// SPDX-License-Identifier: Apache-2.0
// Files that are whole or not there: written beside their place, flushed, renamed.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace lossgrid {

/// The whole file. Throws bad_input that names it.
std::string read_text_file(const std::string& path);

/// Writes `bytes` to a temporary file in the same folder, fsyncs, renames. Makes missing folders.
/// Throws io that names the path and the reason.
void write_file_atomically(const std::string& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::string& path, const std::string& text);

}  // namespace lossgrid
