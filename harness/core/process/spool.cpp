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

/// Opens a file without a name, also where the file system has no O_TMPFILE. Not valid if there can
/// be none.
Descriptor open_nameless() {
  std::error_code ignored;
  const std::string folder = std::filesystem::temp_directory_path(ignored).string();
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0) return Descriptor(file);
  std::string name = folder + "/lossgrid-XXXXXX";
  Descriptor named(::mkostemp(name.data(), O_CLOEXEC));
  if (named.valid()) ::unlink(name.c_str());
  return named;
}

}  // namespace

void Spool::append(std::string_view record) {
  const auto bytes = static_cast<std::uint64_t>(record.size());
  pending_.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
  pending_.append(record);
  ++size_;
  if (pending_.size() >= kPiece && !is_full_) write_pending();
}

void Spool::write_pending() {
  if (!file_.valid()) file_ = open_nameless();
  is_full_ = !file_.valid();
  std::size_t done = 0;
  while (done < pending_.size() && !is_full_) {
    const ssize_t count =
        ::pwrite(file_.get(), pending_.data() + done, pending_.size() - done, written_);
    if (count < 0 && errno == EINTR) continue;
    is_full_ = count <= 0;
    if (is_full_) break;
    done += static_cast<std::size_t>(count);
    written_ += count;
  }
  pending_.erase(0, done);
}

bool Spool::Reader::next(std::string& record) {
  if (read_ == spool_->size_) return false;
  std::uint64_t bytes = 0;
  take(reinterpret_cast<char*>(&bytes), sizeof(bytes));
  record.resize(bytes);
  take(record.data(), record.size());
  ++read_;
  return true;
}

void Spool::Reader::read_ahead() {
  used_ = 0;
  if (at_ >= spool_->written_) {
    ahead_ = spool_->pending_.substr(static_cast<std::size_t>(at_ - spool_->written_));
  } else {
    ahead_.resize(static_cast<std::size_t>(
        std::min(static_cast<std::int64_t>(kPiece), spool_->written_ - at_)));
    const ssize_t got = ::pread(spool_->file_.get(), ahead_.data(), ahead_.size(), at_);
    ahead_.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
  if (ahead_.empty()) {
    throw Error(ErrorCode::io, fmt::format("cannot read a temporary file: {}",
                                           std::generic_category().message(errno)));
  }
  at_ += static_cast<std::int64_t>(ahead_.size());
}

void Spool::Reader::take(char* to, std::size_t count) {
  while (count > 0) {
    if (used_ == ahead_.size()) read_ahead();
    const std::size_t part = std::min(count, ahead_.size() - used_);
    std::copy_n(ahead_.data() + used_, part, to);
    used_ += part;
    to += part;
    count -= part;
  }
}

}  // namespace lossgrid
