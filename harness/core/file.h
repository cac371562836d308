// SPDX-License-Identifier: Apache-2.0
// Files that are whole or not there: written beside their place, flushed, renamed. A crash or a
// full disk leaves the old file as it was. Any thread may call; two writers of one path do not mix,
// the last rename wins.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace lossgrid {

/// The whole file. Throws bad_input that names it.
std::string read_text_file(const std::string& path);

/// Makes the missing folders of `path` and refuses a path that is a folder, so that a bad --out is
/// known before any work. Throws io that names the path and the reason.
void prepare_file_path(const std::string& path);

/// Writes `bytes` to a temporary file in the same folder, fsyncs, renames. Makes missing folders.
/// Throws io that names the path and the reason. A device or pipe (/dev/stdout) is written in
/// place, a symbolic link is followed.
void write_file_atomically(const std::string& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::string& path, const std::string& text);

/// Adds `lines`, each ended by '\n', to a file that is only ever added to, or makes it. Writers
/// wait for each other; after a failure the file is as it was. A last line without '\n', which a
/// crash cut off, is removed. Makes missing folders. Throws io that names the path and the reason.
void append_lines_to_file(const std::string& path, const std::string& lines);

}  // namespace lossgrid
