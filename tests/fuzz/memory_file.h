// SPDX-License-Identifier: Apache-2.0
// `MemoryFile`: bytes with a path but no disk, for readers that take paths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/property.h"

namespace lossgrid {

/// File in memory, gone with the object.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size)
      : descriptor_(::memfd_create("input", MFD_CLOEXEC)) {
    require(descriptor_ >= 0, "no file in memory");
    require(::pwrite(descriptor_, data, size, 0) == static_cast<ssize_t>(size), "a short write");
  }
  explicit MemoryFile(const std::string& text)
      : MemoryFile(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()) {}
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace lossgrid
