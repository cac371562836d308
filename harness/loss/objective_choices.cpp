// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/objective_choices.h"

#include <utility>

namespace lossgrid {
namespace {

using Choices = std::function<ObjectiveChoices(const std::map<std::string, std::string>&)>;

/// A function, so that it exists when the first objective registers.
std::map<std::string, Choices>& by_kind() {
  static std::map<std::string, Choices> all;
  return all;
}

}  // namespace

void register_choices(const std::string& kind, Choices choices) {
  by_kind()[kind] = std::move(choices);
}

ObjectiveChoices choices_of(const ObjectiveSpec& spec) {
  const auto at = by_kind().find(spec.kind);
  return at == by_kind().end() ? ObjectiveChoices() : at->second(spec.options);
}

}  // namespace lossgrid
