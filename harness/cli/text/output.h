// SPDX-License-Identifier: Apache-2.0
// The output of the process. A failure of stdout does not throw: it is reported once, at the end
// (end_output), so that a run whose table nobody reads still writes its report.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "harness/core/process/terminal.h"

namespace lossgrid {

/// Opens those of stdin, stdout and stderr that the process was started without, so that no file
/// takes their place, and makes a file that grows beyond `ulimit -f` an error like that of a full
/// disk. The first call of main.
void prepare_output();

/// Prints `text` to stdout. Escapes control characters other than line ends and the colours of
/// `style`.
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

/// Writes `text` unchanged to the file `path`, or to stdout for "-". Throws io for a file.
void write_output(const std::string& path, const std::string& text);

/// Ends the output and returns `code`. If stdout could not be written, prints that on stderr and
/// returns exit_code_without_output of `code`; if the reader of a pipe has left (| head), the
/// process dies of SIGPIPE.
int end_output(int code);

}  // namespace lossgrid
