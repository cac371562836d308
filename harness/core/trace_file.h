// SPDX-License-Identifier: Apache-2.0
// TraceFile: a file of Chrome trace events for ui.perfetto.dev and chrome://tracing: a JSON array
// with one event a line, written as events come. Both viewers accept an array without its end, so a
// file cut off by a crash can be read; finish() closes the array. Any thread may add.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace lossgrid {

class TraceFile {
 public:
  /// Makes missing folders and replaces the file. Times count from `origin_ns` after the Unix
  /// epoch. Throws io with the path and the reason.
  TraceFile(std::string path, std::int64_t origin_ns);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t origin_ns() const { return origin_ns_; }

  /// Adds `events`: one JSON object or several, each in a line, separated by commas. The first
  /// failure to write ends the file behind the last complete event.
  void add(std::string_view events) noexcept;
  /// Returns true on the first call for `rank`, as its tracks are named once.
  bool is_new(int rank);

  /// Moves the events of a finished trace to the end of this trace. Does nothing if the file is
  /// missing, because another machine wrote it.
  void take(const std::string& other_path);
  /// Closes the array; later events are dropped. Throws io if any write failed, with the first
  /// failure.
  void finish();

 private:
  void write(std::string_view text) noexcept;

  const std::string path_;
  const std::int64_t origin_ns_;
  std::mutex mutex_;
  int file_ = -1;
  std::size_t written_bytes_ = 0;
  bool is_empty_ = true;
  int error_ = 0;
  std::set<int> ranks_;
};

}  // namespace lossgrid
