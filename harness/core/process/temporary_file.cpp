// SPDX-License-Identifier: Apache-2.0
#include "harness/core/process/temporary_file.h"

#include <atomic>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

namespace lossgrid {

namespace fs = std::filesystem;

namespace {

constexpr const char* kInfix = ".tmp-";

fs::path next_name(const fs::path& place) {
  static std::atomic<unsigned> counter{0};
  return fmt::format("{}{}{}-{}", place.string(), kInfix, ::getpid(), counter.fetch_add(1));
}

/// Returns true for names that next_name makes for `place`.
bool is_temporary_name(const fs::path& place, const std::string& file_name) {
  const std::string prefix = place.filename().string() + kInfix;
  if (!file_name.starts_with(prefix)) return false;
  const std::string_view rest = std::string_view(file_name).substr(prefix.size());
  const std::size_t dash = rest.find('-');
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return dash != std::string_view::npos && is_number(rest.substr(0, dash)) &&
         is_number(rest.substr(dash + 1));
}

/// Removes files beside `place` that dead processes left: files whose lock nobody holds. The
/// process number in the name cannot decide this, because another container numbers its processes
/// anew.
void remove_stale(const fs::path& place) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (fs::directory_iterator at(parent_folder(place), ignored), end; at != end;
       at.increment(ignored)) {
    if (is_temporary_name(place, at->path().filename().string())) found.push_back(at->path());
  }
  for (const fs::path& path : found) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
    if (file.valid() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
  }
}

/// Returns the name of an open file under /proc, from which a file without a name is linked to its
/// first name.
std::string name_by_descriptor(int descriptor) {
  return fmt::format("/proc/self/fd/{}", descriptor);
}

}  // namespace

fs::path parent_folder(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

TemporaryFile::TemporaryFile(fs::path place) : TemporaryFile(std::move(place), false) {}

TemporaryFile TemporaryFile::named(fs::path place) {
  return TemporaryFile(std::move(place), true);
}

TemporaryFile::TemporaryFile(fs::path place, bool has_name) : place_(std::move(place)) {
  remove_stale(place_);
  if (!has_name && ::access("/proc/self/fd", X_OK) == 0) {
    descriptor_ =
        Descriptor(::open(parent_folder(place_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666));
    if (descriptor_.valid()) ::flock(descriptor_.get(), LOCK_EX);
  }
  if (!descriptor_.valid()) open_named();
}

void TemporaryFile::open_named() {
  for (;;) {
    const fs::path name = next_name(place_);
    descriptor_ = Descriptor(::open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!descriptor_.valid()) return;
    ::flock(descriptor_.get(), LOCK_EX);
    struct stat about {};
    ::fstat(descriptor_.get(), &about);
    name_ = name;
    // Another process may have removed the file as stale before the lock was taken.
    if (about.st_nlink > 0) return;
  }
}

TemporaryFile::~TemporaryFile() {
  if (!name_.empty()) ::unlink(name_.c_str());
}

bool TemporaryFile::move_into_place() {
  if (name_.empty()) {
    const std::string self = name_by_descriptor(descriptor_.get());
    const auto link_to = [&](const fs::path& path) {
      return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0;
    };
    if (link_to(place_)) return true;
    if (errno != EEXIST) return false;
    // A link never replaces a file; a rename does.
    const fs::path name = next_name(place_);
    if (!link_to(name)) return false;
    name_ = name;
  }
  if (::rename(name_.c_str(), place_.c_str()) != 0) return false;
  name_.clear();
  return true;
}

}  // namespace lossgrid
