// SPDX-License-Identifier: Apache-2.0
// Reading and writing of whole files. A file is written beside its place, flushed, then renamed: a
// crash or a full disk leaves the old file as it was and nothing beside it. Any thread may call;
// two writers of one path do not mix, the last rename wins. Reads have an upper bound of bytes.
#pragma once

#include <cstddef>
#include <cstdio>
#include <functional>
#include <span>
#include <string>

namespace lossgrid {

/// Default bound of reads, larger than any report. A parsed text takes several times its size in
/// memory.
inline constexpr std::size_t kMostTextBytes = std::size_t{1} << 30;

/// Reads a whole regular file or pipe (`<(zcat report.json.gz)`). Throws bad_input with the path if
/// it cannot be read, is longer than `most_bytes`, is a folder or a device, or is a pipe that
/// nobody opens for writing within a second or that is silent for a minute.
std::string read_text_file(const std::string& path, std::size_t most_bytes = kMostTextBytes);

/// Makes the missing folders of `path`. Throws io with the path and the reason, also for a path
/// that is a folder, so that a bad --out is found before any work.
void prepare_file_path(const std::string& path);

/// Writes `bytes` to a temporary file in the same folder, fsyncs and renames it. Makes missing
/// folders. A device or pipe (/dev/stdout) is written in place, a symbolic link is followed. Throws
/// io with the path and the reason.
void write_file_atomically(const std::string& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::string& path, const std::string& text);

/// The same for bytes that `produce` gives to its argument, piece by piece.
using ByteSink = std::function<void(std::span<const std::byte>)>;
void write_file_by_pieces(const std::string& path,
                          const std::function<void(const ByteSink&)>& produce);

/// Appends `lines`, each ended by '\n', to a file, which is made if it is missing. Writers wait for
/// each other; after a failure the file is as it was. An incomplete last line, cut off by a crash,
/// is removed. Makes missing folders. Throws io with the path and the reason.
void append_lines_to_file(const std::string& path, const std::string& lines);

/// Opens `path` for writing, truncated; never null. The file is locked until it is closed or the
/// process ends in any way. Throws io with the path if another process has it open in this way.
std::FILE* open_for_one_writer(const std::string& path);

}  // namespace lossgrid
