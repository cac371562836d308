// SPDX-License-Identifier: Apache-2.0
#include "harness/external/shared_memory.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness/core/error.h"

namespace lossgrid {

Descriptor make_memory_file(const char* name) {
  Descriptor file(memfd_create(name, MFD_CLOEXEC));
  if (!file.valid() || fcntl(file.get(), F_SETFL, O_APPEND) != 0) {
    throw Error(ErrorCode::io,
                fmt::format("no file in memory: {}", std::generic_category().message(errno)));
  }
  return file;
}

SharedMemory::SharedMemory(std::size_t bytes)
    : file_(memfd_create("lossgrid arena", MFD_CLOEXEC)), size_(bytes) {
  // Allocated at once, because a page missing later would raise SIGBUS.
  const bool allocated =
      file_.valid() && posix_fallocate(file_.get(), 0, static_cast<off_t>(bytes)) == 0;
  void* mapped = allocated
                     ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0)
                     : MAP_FAILED;
  if (mapped == MAP_FAILED) {
    throw Error(ErrorCode::not_enough_memory,
                fmt::format("no {} bytes of memory to share with a worker", bytes));
  }
  data_ = static_cast<std::byte*>(mapped);
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, size_);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : file_(std::move(other.file_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this == &other) return *this;
  if (data_ != nullptr) munmap(data_, size_);
  file_ = std::move(other.file_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

}  // namespace lossgrid
