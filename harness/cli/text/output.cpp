// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/text/output.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "harness/core/error.h"
#include "harness/core/file.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

int stdout_error = 0;  // errno of the first failure

void print_raw(std::string_view text) {
  if (stdout_error != 0) return;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) stdout_error = errno;
}

}  // namespace

void prepare_output() {
  std::signal(SIGXFSZ, SIG_IGN);
  for (int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // open returns the lowest free number. Writes to this stdout still fail.
    const int mode = descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY;
    [[maybe_unused]] const int opened = ::open("/dev/null", mode);
  }
}

void print_text(std::string_view text, const TextStyle& style) {
  while (style.has_colours && !text.empty()) {
    const std::size_t red = std::min(text.find(kRed), text.size());
    const std::size_t plain = std::min(text.find(kPlain), text.size());
    const std::size_t end = std::min(red, plain);
    print_raw(escape_controls(text.substr(0, end), "\n"));
    text.remove_prefix(end);
    const std::string_view colour = text.substr(0, (red < plain ? kRed : kPlain).size());
    print_raw(colour);
    text.remove_prefix(colour.size());
  }
  print_raw(escape_controls(text, "\n"));
}

void flush_output() {
  if (std::fflush(stdout) != 0 && stdout_error == 0) stdout_error = errno;
}

void print_message(std::string_view message) {
  std::fputs(fmt::format("lossgrid: {}\n", escape_controls(message)).c_str(), stderr);
}

void write_output(const std::string& path, const std::string& text) {
  if (path == "-") {
    print_raw(text);
  } else {
    write_file_atomically(path, text);
  }
}

int end_output(int code) {
  flush_output();
  if (stdout_error == 0) return code;
  if (stdout_error == EPIPE) {
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  }
  print_message(fmt::format("cannot write to standard output: {}",
                            std::generic_category().message(stdout_error)));
  return static_cast<int>(exit_code_without_output(static_cast<ExitCode>(code)));
}

}  // namespace lossgrid
