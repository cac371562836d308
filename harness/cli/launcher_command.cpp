// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/launcher_command.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "harness/cli/text/command_text.h"

namespace lossgrid {
namespace {

/// Returns the flags that a launch does not take over.
std::vector<CommandFlag> own_flags(const LaunchRequest& request) {
  std::vector<CommandFlag> flags{
      {"--supervise", false},   {"--dry-run", false},       {"--quiet", false},
      {"--by-grid", false},     {"--launch", true},         {"--launches", true},
      {"--max-launches", true}, {"--launch-timeout", true}, {"--report", true}};
  if (!request.grid.empty()) flags.push_back({"--grid", true});
  if (!request.resume.empty()) {
    flags.push_back({"--resume", true});
    flags.push_back({"--no-retry", false});
  }
  return flags;
}

std::vector<std::string> launch_arguments(const LaunchRequest& request) {
  std::vector<std::string> arguments = without_flags(request.arguments, own_flags(request));
  const auto add = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    arguments.emplace_back(name);
    arguments.push_back(value);
  };
  add("--grid", request.grid);
  add("--resume", request.resume);
  if (!request.resume.empty()) arguments.emplace_back("--no-retry");
  add("--report", request.report);
  arguments.emplace_back("--quiet");
  if (std::any_of(arguments.begin(), arguments.end(),
                  [](const std::string& a) { return a.starts_with("--inject"); })) {
    arguments.emplace_back("--inject-may-miss");
  }
  return arguments;
}

std::string launcher_text(const LaunchRequest& request) {
  constexpr std::string_view kRanks = "{ranks}";
  std::string launcher = request.launcher;
  for (std::size_t at = launcher.find(kRanks); at != std::string::npos;
       at = launcher.find(kRanks, at)) {
    launcher.replace(at, kRanks.size(), std::to_string(request.ranks));
  }
  return launcher;
}

}  // namespace

std::vector<std::string> launch_command(const LaunchRequest& request) {
  std::vector<std::string> words;
  if (!request.launcher.empty()) {
    words = {"sh", "-c", fmt::format("exec {} \"$@\"", launcher_text(request)), "lossgrid"};
  }
  words.push_back(request.executable);
  const std::vector<std::string> arguments = launch_arguments(request);
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

std::string launch_line(const LaunchRequest& request) {
  std::string line = launcher_text(request);
  if (!line.empty()) line += ' ';
  std::vector<std::string> words = launch_arguments(request);
  words.insert(words.begin(), request.executable);
  return line + shell_line(words);
}

}  // namespace lossgrid
