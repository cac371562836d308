// SPDX-License-Identifier: Apache-2.0
// The output of the process. Nothing here throws: what cannot be written to stdout is told once, at
// the end (end_output), so that a run whose table nobody reads still writes its report.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "harness/core/terminal.h"

namespace lossgrid {

/// Opens what the process was started without, of stdin, stdout and stderr, so that no file takes
/// their place, and makes a file that grows beyond `ulimit -f` an error as of a full disk. First in
/// main.
void prepare_output();

/// Prints `text` to stdout. Control characters but ends of lines, and with `style` its colours, are
/// escaped.
void print_text(std::string_view text, const TextStyle& style = {});

/// The same of formatted text.
template <typename... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  print_text(fmt::format(format, std::forward<Args>(args)...));
}

/// Shows what was printed so far.
void flush_output();

/// Prints "lossgrid: MESSAGE" to stderr, as one line whatever it holds.
void print_message(std::string_view message);

/// Writes `text` as it is to the file `path`, or to stdout where that is "-". Throws io for a file.
void write_output(const std::string& path, const std::string& text);

/// Ends the output: returns `code`, or where stdout could not be written tells so on stderr and
/// returns exit_code_without_output of it. Where the reader of a pipe has left (| head), the
/// process dies of SIGPIPE.
int end_output(int code);

}  // namespace lossgrid
