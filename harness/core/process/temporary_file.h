// SPDX-License-Identifier: Apache-2.0
// TemporaryFile: a file without a name until it is complete, so that nothing is left of it if the
// process is killed (O_TMPFILE). On a file system without O_TMPFILE it is PLACE.tmp-PID-N, locked
// by its process; the next TemporaryFile of that place removes those that dead processes left. One
// thread owns an object; any number of processes may write one place.
#pragma once

#include <filesystem>

#include "harness/core/process/descriptor.h"

namespace lossgrid {

/// Returns the folder of `file`, "." for a name alone.
std::filesystem::path folder_of(const std::filesystem::path& file);

class TemporaryFile {
 public:
  /// Opens the file for writing, in the folder of `place`. On failure it is not valid and errno is
  /// set.
  explicit TemporaryFile(std::filesystem::path place);
  /// Opens a file with a name from the beginning, as on a file system without O_TMPFILE.
  static TemporaryFile named(std::filesystem::path place);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  bool valid() const { return descriptor_.valid(); }
  int descriptor() const { return descriptor_.get(); }

  /// Renames it to its place, over an existing file. Returns false with errno set on failure.
  bool move_into_place();

 private:
  TemporaryFile(std::filesystem::path place, bool has_name);
  void open_named();

  std::filesystem::path place_;
  std::filesystem::path name_;  // empty without a name
  Descriptor descriptor_;
};

}  // namespace lossgrid
