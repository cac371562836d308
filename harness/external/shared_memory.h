// SPDX-License-Identifier: Apache-2.0
// `SharedMemory`: memory that a worker process maps too, a file without a name. One thread owns an
// object.
#pragma once

#include <cstddef>

#include "harness/core/process/descriptor.h"

namespace lossgrid {

class SharedMemory {
 public:
  SharedMemory() = default;
  /// Allocates `bytes` zeros. Throws not_enough_memory.
  explicit SharedMemory(std::size_t bytes);
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  int descriptor() const { return file_.get(); }

 private:
  Descriptor file_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Returns an empty file in memory, opened to append. Throws io.
Descriptor make_memory_file(const char* name);

}  // namespace lossgrid
