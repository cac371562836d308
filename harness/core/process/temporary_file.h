// SPDX-License-Identifier: Apache-2.0
// TemporaryFile: a file without a name until it is complete (O_TMPFILE), so that a killed process
// leaves nothing behind. On a file system without O_TMPFILE its name is PLACE.tmp-PID-N and its
// process locks it; the next TemporaryFile of the same place removes files that dead processes
// left. One thread owns an object; any number of processes may write one place.
#pragma once

#include <filesystem>

#include "harness/core/process/descriptor.h"

namespace lossgrid {

/// Returns the folder of `file`; "." for a file name without a folder.
std::filesystem::path parent_folder(const std::filesystem::path& file);

class TemporaryFile {
 public:
  /// Opens the file for writing, in the folder of `place`. On failure the object is not valid and
  /// errno is set.
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
  std::filesystem::path name_;  // empty: the file has no name
  Descriptor descriptor_;
};

}  // namespace lossgrid
