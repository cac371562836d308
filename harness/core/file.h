// SPDX-License-Identifier: Apache-2.0
// Files that are whole or not there: written beside their place, flushed, renamed. A crash or a
// full disk leaves the old file as it was and nothing beside it. Any thread may call; two writers
// of one path do not mix, the last rename wins. What is read has a bound.
#pragma once

#include <cstddef>
#include <cstdio>
#include <span>
#include <string>

namespace lossgrid {

/// More than any report has; a text takes several times as much memory once it is parsed.
inline constexpr std::size_t kMostTextBytes = std::size_t{1} << 30;

/// The whole of a regular file or a pipe (`<(zcat report.json.gz)`). Throws bad_input that names it
/// when it cannot be read, is longer than `most_bytes`, is a folder or a device, or a pipe that
/// nobody opens for writing within a second or that is silent for a minute.
std::string read_text_file(const std::string& path, std::size_t most_bytes = kMostTextBytes);

/// Makes the missing folders of `path` and refuses a path that is a folder, so that a bad --out is
/// known before any work. Throws io that names the path and the reason.
void prepare_file_path(const std::string& path);

/// Writes `bytes` to a temporary file in the same folder, fsyncs, moves it into its place. Makes
/// missing folders. Throws io that names the path and the reason. A device or pipe (/dev/stdout) is
/// written in place, a symbolic link is followed.
void write_file_atomically(const std::string& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::string& path, const std::string& text);

/// Adds `lines`, each ended by '\n', to a file that is only ever added to, or makes it. Writers
/// wait for each other; after a failure the file is as it was. A last line without '\n', which a
/// crash cut off, is removed. Makes missing folders. Throws io that names the path and the reason.
void append_lines_to_file(const std::string& path, const std::string& lines);

/// Opens `path` for writing, empty; never null. It is locked until it is closed or the process
/// ends, however that does: throws io that names the path while another process has it open in this
/// way.
std::FILE* open_for_one_writer(const std::string& path);

}  // namespace lossgrid
