// SPDX-License-Identifier: Apache-2.0
#include "harness/core/file.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/core/error.h"

namespace lossgrid {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void throw_io(const std::string& path, const std::string& reason) {
  throw Error(ErrorCode::io, fmt::format("cannot write {}: {}", path, reason));
}

std::string last_error() {
  return std::generic_category().message(errno);
}

/// A file descriptor that is closed on every way out.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }
  bool valid() const { return value_ >= 0; }
  /// Some file systems report a failed write only here.
  bool close() {
    const int value = value_;
    value_ = -1;
    return ::close(value) == 0;
  }

 private:
  int value_;
};

/// Removes the temporary file unless it has been renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  ~TemporaryFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }
  void keep() { path_.clear(); }

 private:
  std::string path_;
};

bool write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

/// The rename itself must reach the disk too. Not every file system can do this: best effort.
void sync_folder(const fs::path& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.valid()) ::fsync(descriptor.get());
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

void write_in_place(const std::string& path, std::span<const std::byte> bytes) {
  const Descriptor descriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!descriptor.valid() || !write_all(descriptor.get(), bytes)) throw_io(path, last_error());
}

/// Bytes up to the last line's end, which a crash may have cut off.
off_t whole_lines(int descriptor) {
  off_t end = ::lseek(descriptor, 0, SEEK_END);
  for (char last = 0; end > 0; --end) {
    if (::pread(descriptor, &last, 1, end - 1) != 1) return -1;
    if (last == '\n') break;
  }
  return end;
}

}  // namespace

std::string read_text_file(const std::string& path) {
  const auto refuse = [&](const std::string& reason) {
    throw_bad_input("cannot read {}: {}", path, reason);
  };
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor.valid()) refuse(last_error());
  struct stat about {};
  if (::fstat(descriptor.get(), &about) != 0) refuse(last_error());
  if (S_ISDIR(about.st_mode)) refuse("it is a folder");
  // The size is a hint only: it is 0 for pipes and for files under /proc.
  std::string text(static_cast<std::size_t>(about.st_size) + 1, '\0');
  std::size_t used = 0;
  while (true) {
    if (used == text.size()) text.resize(2 * text.size() + 4096);
    const ssize_t got = ::read(descriptor.get(), text.data() + used, text.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(last_error());
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
  }
  text.resize(used);
  return text;
}

void prepare_file_path(const std::string& path) {
  if (path.empty()) throw_io("''", "the path is empty");
  std::error_code status;
  if (fs::is_directory(path, status)) throw_io(path, "it is a folder");
  const fs::path folder = folder_of(path);
  if (fs::is_directory(folder, status)) {
    if (!fs::path(path).has_filename()) throw_io(path, "it names a folder, not a file");
    return;
  }
  fs::create_directories(folder, status);
  if (status) {
    throw_io(path, fmt::format("cannot make folder {}: {}", folder.string(), status.message()));
  }
  if (!fs::path(path).has_filename()) throw_io(path, "it names a folder, not a file");
}

void write_file_atomically(const std::string& path, std::span<const std::byte> bytes) {
  prepare_file_path(path);
  std::error_code status;
  fs::path place = path;
  const fs::file_status about = fs::status(place, status);
  if (fs::exists(about)) {
    // Renaming over /dev/null would replace the device.
    if (!fs::is_regular_file(about)) return write_in_place(path, bytes);
    const fs::path real = fs::canonical(place, status);
    if (!status) place = real;
  }

  static std::atomic<unsigned> counter{0};
  TemporaryFile temporary(
      fmt::format("{}.tmp-{}-{}", place.string(), ::getpid(), counter.fetch_add(1)));
  Descriptor descriptor(
      ::open(temporary.path().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!descriptor.valid()) {
    const std::string reason = last_error();
    temporary.keep();
    throw_io(path, reason);
  }
  if (!write_all(descriptor.get(), bytes) || ::fsync(descriptor.get()) != 0 ||
      !descriptor.close()) {
    throw_io(path, last_error());
  }
  if (::rename(temporary.path().c_str(), place.c_str()) != 0) throw_io(path, last_error());
  temporary.keep();
  sync_folder(folder_of(place));
}

void write_file_atomically(const std::string& path, const std::string& text) {
  write_file_atomically(path, std::as_bytes(std::span(text)));
}

void append_lines_to_file(const std::string& path, const std::string& lines) {
  prepare_file_path(path);
  Descriptor descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!descriptor.valid()) throw_io(path, last_error());
  ::flock(descriptor.get(), LOCK_EX);  // not every file system can; then one write must do
  const off_t end = whole_lines(descriptor.get());
  if (end < 0 || ::ftruncate(descriptor.get(), end) != 0) throw_io(path, last_error());
  if (!write_all(descriptor.get(), std::as_bytes(std::span(lines))) ||
      ::fsync(descriptor.get()) != 0) {
    const std::string reason = last_error();
    if (::ftruncate(descriptor.get(), end) != 0) throw_io(path, reason + ", cut off");
    throw_io(path, reason);
  }
}

}  // namespace lossgrid
