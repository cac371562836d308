// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/registry.h"

#include <algorithm>

#include "harness/core/error.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

// Function-local statics, because registration happens during static initialisation of other files.
std::map<std::string, ImplementationEntry, std::less<>>& implementation_map() {
  static std::map<std::string, ImplementationEntry, std::less<>> map;
  return map;
}

std::vector<std::function<void()>>& derivations() {
  static std::vector<std::function<void()>> all;
  return all;
}

/// Returns the implementations with those that are derived.
const std::map<std::string, ImplementationEntry, std::less<>>& all_implementations() {
  static const bool derived = [] {
    for (const auto& derive : derivations()) derive();
    return true;
  }();
  static_cast<void>(derived);
  return implementation_map();
}

std::map<std::string, ObjectiveEntry, std::less<>>& objective_map() {
  static std::map<std::string, ObjectiveEntry, std::less<>> map;
  return map;
}

}  // namespace

void register_implementation(ImplementationEntry entry) {
  const std::string name = entry.name;
  if (!implementation_map().emplace(name, std::move(entry)).second) {
    throw Error(ErrorCode::internal, fmt::format("implementation '{}' is registered twice", name));
  }
}

void register_derived(std::function<void()> derive) {
  derivations().push_back(std::move(derive));
}

void register_objective(ObjectiveEntry entry) {
  const std::string kind = entry.kind;
  if (!objective_map().emplace(kind, std::move(entry)).second) {
    throw Error(ErrorCode::internal, fmt::format("objective '{}' is registered twice", kind));
  }
}

std::vector<const ImplementationEntry*> implementations(ImplementationKind kind) {
  std::vector<const ImplementationEntry*> entries;
  for (const auto& [name, entry] : all_implementations()) {
    if (entry.kind == kind) entries.push_back(&entry);
  }
  return entries;
}

std::vector<const ObjectiveEntry*> objectives() {
  std::vector<const ObjectiveEntry*> entries;
  for (const auto& [kind, entry] : objective_map()) entries.push_back(&entry);
  return entries;
}

const ImplementationEntry* find_implementation(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  if (const auto found = all_implementations().find(name); found != all_implementations().end()) {
    return &found->second;
  }
  const auto of_mutant = all_implementations().find(name.substr(0, name.find('/')));
  const bool has_mutants =
      of_mutant != all_implementations().end() && of_mutant->second.make_mutant != nullptr;
  return has_mutants ? &of_mutant->second : nullptr;
}

std::unique_ptr<LossImplementation> make_implementation(std::string_view text) {
  const std::vector<std::string> parts = split(text, ':');
  const ImplementationEntry* entry = find_implementation(parts[0]);
  if (entry == nullptr) {
    // Suggests mutants for a misspelt mutant, else only implementations that users run.
    const bool is_mutant = parts[0].find('/') != std::string::npos;
    std::vector<std::string> known;
    for (const auto& [name, candidate] : all_implementations()) {
      const bool is_shown = candidate.kind == ImplementationKind::real ||
                            candidate.kind == ImplementationKind::external;
      if (is_mutant || is_shown) known.push_back(name);
    }
    throw Error(ErrorCode::bad_input, unknown_name_message("implementation", parts[0], known));
  }
  ImplementationOptions options;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t equals = parts[i].find('=');
    if (equals == std::string::npos || equals == 0) {
      throw_bad_input("implementation '{}': '{}' is not option=value", text, parts[i]);
    }
    if (!options.emplace(parts[i].substr(0, equals), parts[i].substr(equals + 1)).second) {
      throw_bad_input("implementation '{}': option '{}' is given twice", text,
                      parts[i].substr(0, equals));
    }
  }
  if (entry->name == parts[0]) return entry->make(options);
  return entry->make_mutant(parts[0].substr(entry->name.size() + 1), options);
}

std::vector<std::string> with_offered_values(const std::vector<std::string>& texts) {
  std::vector<std::string> out;
  for (const std::string& text : texts) {
    out.push_back(text);
    const std::vector<std::string> parts = split(text, ':');
    const auto entry = all_implementations().find(parts[0]);
    if (entry == all_implementations().end()) continue;
    const auto& offers = entry->second.offers;
    const bool is_chosen = std::any_of(
        parts.begin() + 1, parts.end(),
        [&](const std::string& part) { return offers.contains(part.substr(0, part.find('='))); });
    if (is_chosen) continue;
    for (const auto& [option, values] : offers) {
      for (std::size_t k = 1; k < values.size(); ++k) {
        const std::string other = fmt::format("{}:{}={}", text, option, values[k]);
        if (std::find(texts.begin(), texts.end(), other) == texts.end()) out.push_back(other);
      }
    }
  }
  return out;
}

const ObjectiveEntry& find_objective(std::string_view kind) {
  const auto entry = objective_map().find(kind);
  if (entry == objective_map().end()) {
    std::vector<std::string> known;
    for (const auto& [name, candidate] : objective_map()) known.push_back(name);
    throw Error(ErrorCode::bad_input, unknown_name_message("objective", kind, known));
  }
  return entry->second;
}

std::vector<OptionDescription> describe_options(const ObjectiveSpec& spec) {
  return find_objective(spec.kind).describe(spec.options);
}

ObjectiveSpec with_all_options(const ObjectiveSpec& spec) {
  ObjectiveSpec all{spec.kind, {}};
  for (OptionDescription& option : describe_options(spec)) {
    all.options[option.name] = std::move(option.value);
  }
  return all;
}

std::unique_ptr<Objective> make_objective(const ObjectiveSpec& spec, bool statistics,
                                          bool predictions) {
  std::unique_ptr<Objective> objective = find_objective(spec.kind).make(spec.options);
  if (objective->needs().head != Head::lm) return objective;  // these metrics need a vocabulary
  if (predictions) objective = with_predictions(std::move(objective));
  return statistics ? with_statistics(std::move(objective)) : std::move(objective);
}

void require_known_options(const std::map<std::string, std::string>& options,
                           const std::vector<std::string>& known, std::string_view owner) {
  for (const auto& [option, value] : options) {
    if (std::find(known.begin(), known.end(), option) != known.end()) continue;
    if (known.empty()) throw_bad_input("'{}' takes no options, got '{}'", owner, option);
    throw Error(ErrorCode::bad_input,
                unknown_name_message(fmt::format("option of '{}'", owner), option, known));
  }
}

}  // namespace lossgrid
