// SPDX-License-Identifier: Apache-2.0
// A comma precedes every event but the first, so that only the closing bracket is missing at any
// time. An event is one write(2): no buffered event is lost if the process dies.
#include "harness/core/trace_file.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <new>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "harness/core/error.h"
#include "harness/core/file.h"

namespace lossgrid {
namespace {

constexpr std::string_view kBegin = "[";
constexpr std::string_view kEnd = "\n]\n";

[[noreturn]] void throw_io(const std::string& path, int error) {
  throw Error(ErrorCode::io,
              fmt::format("cannot write {}: {}", path, std::generic_category().message(error)));
}

}  // namespace

TraceFile::TraceFile(std::string path, std::int64_t origin_ns)
    : path_(std::move(path)), origin_ns_(origin_ns) {
  prepare_file_path(path_);
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) throw_io(path_, errno);
  write(kBegin);
  if (error_ != 0) throw_io(path_, error_);
}

TraceFile::~TraceFile() {
  if (file_ >= 0) ::close(file_);
}

void TraceFile::add(std::string_view events) noexcept {
  const std::lock_guard lock(mutex_);
  if (file_ < 0) return;
  try {
    std::string text = is_empty_ ? "\n" : ",\n";
    text += events;
    is_empty_ = false;
    write(text);
  } catch (const std::bad_alloc&) {
    error_ = ENOMEM;
  }
}

bool TraceFile::is_new(int rank) {
  const std::lock_guard lock(mutex_);
  return ranks_.insert(rank).second;
}

void TraceFile::write(std::string_view text) noexcept {
  if (error_ != 0) return;
  const std::size_t whole = written_bytes_;
  while (!text.empty()) {
    const ssize_t written = ::write(file_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      error_ = errno;
      // Removes a partial event. Only regular files can be truncated.
      if (::ftruncate(file_, static_cast<::off_t>(whole)) == 0) written_bytes_ = whole;
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
    written_bytes_ += static_cast<std::size_t>(written);
  }
}

void TraceFile::take(const std::string& other_path) {
  if (!std::filesystem::exists(other_path)) return;
  const std::string text = read_text_file(other_path, std::numeric_limits<std::int64_t>::max());
  std::string_view events = text;
  if (events.ends_with(kEnd)) events.remove_suffix(kEnd.size());
  events.remove_prefix(std::min(events.size(), kBegin.size() + 1));
  if (!events.empty()) add(events);
  std::error_code ignored;
  std::filesystem::remove(other_path, ignored);
}

void TraceFile::finish() {
  const std::lock_guard lock(mutex_);
  if (file_ < 0) return;
  write(kEnd);
  if (::close(file_) != 0 && error_ == 0) error_ = errno;
  file_ = -1;
  if (error_ != 0) throw_io(path_, error_);
}

}  // namespace lossgrid
