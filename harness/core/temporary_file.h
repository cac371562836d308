// SPDX-License-Identifier: Apache-2.0
// A file on its way to its place: it has no name until it is whole, so that nothing is left of it
// when the process is killed (O_TMPFILE). Where a file system has no such files it is
// PLACE.tmp-PID-N, locked by its process; the next TemporaryFile of that place removes those that
// dead processes left. One thread owns an object; any number of processes may write one place.
#pragma once

#include <filesystem>

#include "harness/core/descriptor.h"

namespace lossgrid {

/// The folder that `file` is in, "." for a name alone.
std::filesystem::path folder_of(const std::filesystem::path& file);

class TemporaryFile {
 public:
  /// Opens it for writing, in the folder of `place`. On failure it is not valid, and errno tells
  /// why.
  explicit TemporaryFile(std::filesystem::path place);
  /// The same with a name from the beginning, as on a file system without O_TMPFILE.
  static TemporaryFile named(std::filesystem::path place);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  bool valid() const { return descriptor_.valid(); }
  int descriptor() const { return descriptor_.get(); }

  /// Puts it into its place, over what stands there. Returns false with errno set where it cannot.
  bool move_into_place();

 private:
  TemporaryFile(std::filesystem::path place, bool has_name);
  void open_named();

  std::filesystem::path place_;
  std::filesystem::path name_;  // empty: none
  Descriptor descriptor_;
};

}  // namespace lossgrid
