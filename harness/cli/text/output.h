// SPDX-License-Identifier: Apache-2.0
// Output of the process. A failure of stdout does not throw: it is reported once, at the end
// (end_output), so that a run still writes its report if nobody reads its table.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "harness/core/process/terminal.h"

namespace lossgrid {

/// Opens stdin, stdout and stderr if they are closed, so that no other file takes their numbers.
/// Makes a write beyond `ulimit -f` fail like a write to a full disk. Must be the first call of
/// main.
void prepare_output();

/// Prints `text` to stdout. Escapes control characters except line ends and the colours of `style`.
void print_text(std::string_view text, const TextStyle& style = {});

/// Prints formatted text.
template <typename... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  print_text(fmt::format(format, std::forward<Args>(args)...));
}

/// Flushes stdout.
void flush_output();

/// Prints "lossgrid: MESSAGE" to stderr, always as one line.
void print_message(std::string_view message);

/// Writes `text` unchanged to the file `path`, or to stdout for "-". Throws io if the file cannot
/// be written.
void write_output(const std::string& path, const std::string& text);

/// Ends the output and returns `code`. If stdout could not be written, prints a message on stderr
/// and returns exit_code_without_output(code). If the reader of a pipe has left (| head), the
/// process dies of SIGPIPE.
int end_output(int code);

}  // namespace lossgrid
