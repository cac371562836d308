// SPDX-License-Identifier: Apache-2.0
#include "harness/core/process/spool.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 16;

[[noreturn]] void throw_io(const char* verb) {
  std::error_code ignored;
  throw Error(ErrorCode::io, fmt::format("cannot {} a temporary file in {}: {}", verb,
                                         std::filesystem::temp_directory_path(ignored).string(),
                                         std::generic_category().message(errno)));
}

/// Opens a file without a name, also where the file system has no O_TMPFILE.
Descriptor open_nameless() {
  std::error_code ignored;
  const std::string folder = std::filesystem::temp_directory_path(ignored).string();
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0) return Descriptor(file);
  std::string name = folder + "/lossgrid-XXXXXX";
  Descriptor named(::mkostemp(name.data(), O_CLOEXEC));
  if (!named.valid()) throw_io("make");
  ::unlink(name.c_str());
  return named;
}

}  // namespace

void Spool::append(std::string_view record) {
  const auto bytes = static_cast<std::uint64_t>(record.size());
  pending_.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
  pending_.append(record);
  ++size_;
  if (pending_.size() >= kPiece) write_pending();
}

void Spool::write_pending() const {
  if (pending_.empty()) return;
  if (!file_.valid()) file_ = open_nameless();
  for (std::size_t done = 0; done < pending_.size();) {
    const ssize_t count =
        ::pwrite(file_.get(), pending_.data() + done, pending_.size() - done, written_);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw_io("write");
    done += static_cast<std::size_t>(count);
    written_ += count;
  }
  pending_.clear();
}

bool Spool::Reader::next(std::string& record) {
  if (read_ == spool_->size_) return false;
  spool_->write_pending();
  std::uint64_t bytes = 0;
  take(reinterpret_cast<char*>(&bytes), sizeof(bytes));
  record.resize(bytes);
  take(record.data(), record.size());
  ++read_;
  return true;
}

void Spool::Reader::take(char* to, std::size_t count) {
  while (count > 0) {
    if (used_ == ahead_.size()) {
      ahead_.resize(kPiece);
      const ssize_t got = ::pread(spool_->file_.get(), ahead_.data(), kPiece, at_);
      if (got <= 0) throw_io("read");
      ahead_.resize(static_cast<std::size_t>(got));
      at_ += got;
      used_ = 0;
    }
    const std::size_t part = std::min(count, ahead_.size() - used_);
    std::copy_n(ahead_.data() + used_, part, to);
    used_ += part;
    to += part;
    count -= part;
  }
}

}  // namespace lossgrid
