// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/faults/fault.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::usage, fmt::format(format, std::forward<Args>(args)...));
}

FaultKind parse_kind(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, FaultKind>, 9> kKinds{
      {{"throw", FaultKind::exception},
       {"hang", FaultKind::hang},
       {"leave", FaultKind::leave},
       {"exit", FaultKind::exit},
       {"segv", FaultKind::segfault},
       {"kill", FaultKind::kill},
       {"oom", FaultKind::out_of_memory},
       {"device_lost", FaultKind::device_loss},
       {"nan", FaultKind::nan}}};
  std::vector<std::string> names;
  for (const auto& [name, kind] : kKinds) {
    if (name == text) return kind;
    names.emplace_back(name);
  }
  refuse("{}", unknown_name_message("kind of fault", text, names));
}

RankPhase parse_phase(const std::string& text) {
  std::vector<std::string> names;
  for (const RankPhase phase : kRankPhases) {
    if (name(phase) == text) return phase;
    names.emplace_back(name(phase));
  }
  refuse("{}", unknown_name_message("phase of a fault", text, names));
}

/// Returns the parts key=value; each key occurs once.
std::map<std::string, std::string> parts_of(std::string_view text) {
  const std::vector<std::string> known{"rank", "call", "at", "trial", "kind"};
  std::map<std::string, std::string> parts;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      refuse("{}", unknown_name_message("key of a fault", key, known));
    }
    const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
    if (!parts.try_emplace(key, value).second) refuse("fault '{}' has '{}' twice", text, key);
  }
  return parts;
}

}  // namespace

Fault parse_fault(std::string_view text) {
  const std::map<std::string, std::string> parts = parts_of(text);
  for (const char* key : {"rank", "kind"}) {
    if (!parts.contains(key)) refuse("fault '{}' lacks '{}='", text, key);
  }
  if (parts.contains("call") && parts.contains("at")) {
    refuse("fault '{}' has both 'call=' and 'at='", text);
  }
  const auto integer = [&](const char* key, int low) {
    try {
      return static_cast<int>(
          parse_integer(parts.at(key), key, low, std::numeric_limits<int>::max()));
    } catch (const Error& error) {
      refuse("fault '{}': {}", text, error.what());
    }
  };
  Fault fault;
  fault.rank = integer("rank", 0);
  fault.kind = parse_kind(parts.at("kind"));
  if (parts.contains("call")) fault.call = integer("call", 1);
  if (parts.contains("at")) fault.phase = parse_phase(parts.at("at"));
  if (parts.contains("trial")) fault.trial = integer("trial", 1);
  const bool gives_numbers =
      fault.phase == RankPhase::forward || fault.phase == RankPhase::backward;
  if (fault.kind == FaultKind::nan && !gives_numbers) {
    refuse("fault '{}': kind=nan needs at=forward or at=backward", text);
  }
  if (fault.kind == FaultKind::device_loss && fault.phase == RankPhase::none) {
    refuse("fault '{}': kind=device_lost needs at=", text);
  }
  return fault;
}

}  // namespace lossgrid
