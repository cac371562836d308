// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/launcher_command.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

namespace lossgrid {
namespace {

struct OwnFlag {
  std::string_view name;
  bool has_value;
};

/// Left out of what a launch is given.
std::vector<OwnFlag> own_flags(const LaunchRequest& request) {
  std::vector<OwnFlag> flags{
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

std::vector<std::string> arguments_of(const LaunchRequest& request) {
  const std::vector<OwnFlag> own = own_flags(request);
  std::vector<std::string> arguments;
  for (std::size_t k = 0; k < request.arguments.size(); ++k) {
    const std::string_view argument = request.arguments[k];
    const std::string_view flag_name = argument.substr(0, argument.find('='));
    const auto flag =
        std::find_if(own.begin(), own.end(), [&](const OwnFlag& f) { return f.name == flag_name; });
    if (flag == own.end()) {
      arguments.emplace_back(argument);
    } else if (flag->has_value && flag_name.size() == argument.size()) {
      ++k;
    }
  }
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

std::string launcher_of(const LaunchRequest& request) {
  constexpr std::string_view kRanks = "{ranks}";
  std::string launcher = request.launcher;
  for (std::size_t at = launcher.find(kRanks); at != std::string::npos;
       at = launcher.find(kRanks, at)) {
    launcher.replace(at, kRanks.size(), std::to_string(request.ranks));
  }
  return launcher;
}

std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

std::vector<std::string> launch_command(const LaunchRequest& request) {
  std::vector<std::string> words;
  if (!request.launcher.empty()) {
    words = {"sh", "-c", fmt::format("exec {} \"$@\"", launcher_of(request)), "lossgrid"};
  }
  words.push_back(request.executable);
  const std::vector<std::string> arguments = arguments_of(request);
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

std::string launch_line(const LaunchRequest& request) {
  std::string line = launcher_of(request);
  if (!line.empty()) line += ' ';
  line += quoted(request.executable);
  for (const std::string& word : arguments_of(request)) line += ' ' + quoted(word);
  return line;
}

}  // namespace lossgrid
