// SPDX-License-Identifier: Apache-2.0
#include "harness/core/file.h"

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/core/error.h"
#include "harness/core/process/descriptor.h"
#include "harness/core/process/temporary_file.h"
#include "harness/core/text.h"

namespace lossgrid {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void throw_io(const std::string& path, const std::string& reason) {
  throw Error(ErrorCode::io, fmt::format("cannot write {}: {}", path, reason));
}

std::string last_error() {
  return std::generic_category().message(errno);
}

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

/// Syncs the rename itself, as far as the file system supports it.
void sync_folder(const fs::path& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.valid()) ::fsync(descriptor.get());
}

/// Gives pieces of a file to its descriptor in blocks.
class BlockWriter {
 public:
  BlockWriter(int descriptor, const std::string& path) : descriptor_(descriptor), path_(path) {}

  void add(std::span<const std::byte> bytes) {
    block_.insert(block_.end(), bytes.begin(), bytes.end());
    if (block_.size() >= kBlock) flush();
  }
  void flush() {
    if (!write_all(descriptor_, block_)) throw_io(path_, last_error());
    block_.clear();
  }

 private:
  static constexpr std::size_t kBlock = std::size_t{1} << 16;

  int descriptor_;
  const std::string& path_;
  std::vector<std::byte> block_;
};

void write_pieces(int descriptor, const std::string& path,
                  const std::function<void(const ByteSink&)>& produce) {
  BlockWriter writer(descriptor, path);
  produce([&](std::span<const std::byte> bytes) { writer.add(bytes); });
  writer.flush();
}

/// Limits of waiting on a pipe: for a writer to open the pipe, and for the next byte.
constexpr std::chrono::milliseconds kWriterPatience{1000};
constexpr std::chrono::milliseconds kSilence{60'000};

/// Returns true if there is something to read or the pipe is at its end.
bool wait_for_data(int descriptor, std::chrono::milliseconds limit) {
  pollfd wanted{descriptor, POLLIN, 0};
  return ::poll(&wanted, 1, static_cast<int>(limit.count())) != 0;
}

/// Returns the bytes up to the end of the last complete line; -1 on failure.
off_t whole_lines(int descriptor) {
  off_t end = ::lseek(descriptor, 0, SEEK_END);
  for (char last = 0; end > 0; --end) {
    if (::pread(descriptor, &last, 1, end - 1) != 1) return -1;
    if (last == '\n') break;
  }
  return end;
}

}  // namespace

std::string read_text_file(const std::string& path, std::size_t most_bytes) {
  const auto refuse = [&](const std::string& reason) {
    throw_bad_input("cannot read {}: {}", path, reason);
  };
  // Without O_NONBLOCK, open() would block on a pipe that nobody writes to.
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!descriptor.valid()) refuse(last_error());
  struct stat about {};
  if (::fstat(descriptor.get(), &about) != 0) refuse(last_error());
  if (S_ISDIR(about.st_mode)) refuse("it is a folder");
  const bool is_pipe = S_ISFIFO(about.st_mode);
  if (!is_pipe && !S_ISREG(about.st_mode)) refuse("it is a device");
  const auto size = static_cast<std::size_t>(about.st_size);
  const std::string too_long =
      fmt::format("it has more than {}", format_bytes(static_cast<std::int64_t>(most_bytes)));
  if (size > most_bytes) refuse(too_long);
  // The size is a hint only: it is 0 for pipes and for files under /proc.
  std::string text(size + 1, '\0');
  std::size_t used = 0;
  bool has_waited = false;
  while (true) {
    if (used == text.size()) text.resize(2 * text.size() + 4096);
    const ssize_t got = ::read(descriptor.get(), text.data() + used, text.size() - used);
    if (got > 0) {
      used += static_cast<std::size_t>(got);
      if (used > most_bytes) refuse(too_long);
    } else if (got == 0) {
      if (!is_pipe || used > 0) break;
      if (std::exchange(has_waited, true)) refuse("it is a pipe that nobody writes to");
      wait_for_data(descriptor.get(), kWriterPatience);
    } else if (errno == EAGAIN) {
      if (!wait_for_data(descriptor.get(), kSilence)) refuse("it is a pipe, and nothing comes");
    } else if (errno != EINTR) {
      refuse(last_error());
    }
  }
  text.resize(used);
  return text;
}

void prepare_file_path(const std::string& path) {
  if (path.empty()) throw_io("''", "the path is empty");
  std::error_code status;
  if (fs::is_directory(path, status)) throw_io(path, "it is a folder");
  const fs::path folder = parent_folder(path);
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

void write_file_by_pieces(const std::string& path,
                          const std::function<void(const ByteSink&)>& produce) {
  prepare_file_path(path);
  std::error_code status;
  fs::path place = path;
  const fs::file_status about = fs::status(place, status);
  if (fs::exists(about)) {
    // Renaming over /dev/null would replace the device.
    if (!fs::is_regular_file(about)) {
      const Descriptor device(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
      if (!device.valid()) throw_io(path, last_error());
      return write_pieces(device.get(), path, produce);
    }
    const fs::path real = fs::canonical(place, status);
    if (!status) place = real;
  }

  TemporaryFile temporary(place);
  if (!temporary.valid()) throw_io(path, last_error());
  write_pieces(temporary.descriptor(), path, produce);
  if (::fsync(temporary.descriptor()) != 0 || !temporary.move_into_place()) {
    throw_io(path, last_error());
  }
  sync_folder(parent_folder(place));
}

void write_file_atomically(const std::string& path, std::span<const std::byte> bytes) {
  write_file_by_pieces(path, [&](const ByteSink& sink) { sink(bytes); });
}

void write_file_atomically(const std::string& path, const std::string& text) {
  write_file_atomically(path, std::as_bytes(std::span(text)));
}

void append_lines_to_file(const std::string& path, const std::string& lines) {
  prepare_file_path(path);
  const Descriptor descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!descriptor.valid()) throw_io(path, last_error());
  ::flock(descriptor.get(),
          LOCK_EX);  // not every file system supports locks: then the single write must suffice
  const off_t end = whole_lines(descriptor.get());
  if (end < 0 || ::ftruncate(descriptor.get(), end) != 0) throw_io(path, last_error());
  if (!write_all(descriptor.get(), std::as_bytes(std::span(lines))) ||
      ::fsync(descriptor.get()) != 0) {
    const std::string reason = last_error();
    if (::ftruncate(descriptor.get(), end) != 0) throw_io(path, reason + ", cut off");
    throw_io(path, reason);
  }
}

std::FILE* open_for_one_writer(const std::string& path) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    Descriptor descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    if (!descriptor.valid()) throw_io(path, last_error());
    // Not every file system supports locks: then other writers are not noticed.
    if (::flock(descriptor.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      throw_io(path, "another process writes it");
    }
    struct stat locked {};
    struct stat there {};
    ::fstat(descriptor.get(), &locked);
    const bool is_there = ::stat(path.c_str(), &there) == 0 && there.st_ino == locked.st_ino &&
                          there.st_dev == locked.st_dev;
    if (!is_there) continue;  // its last writer has just removed it
    if (S_ISREG(locked.st_mode) && ::ftruncate(descriptor.get(), 0) != 0) {
      throw_io(path, last_error());
    }
    std::FILE* file = ::fdopen(descriptor.get(), "w");
    if (file == nullptr) throw_io(path, last_error());
    descriptor.release();
    return file;
  }
  throw_io(path, "other processes make and remove it all the time");
}

}  // namespace lossgrid
