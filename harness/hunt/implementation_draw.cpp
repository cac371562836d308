// SPDX-License-Identifier: Apache-2.0
#include "harness/hunt/implementation_draw.h"

#include <algorithm>

#include "harness/loss/loss_problem.h"
#include "harness/loss/registry.h"

namespace lossgrid {
namespace {

/// Returns an implementation with some of the values that its options have to draw.
std::string with_drawn_options(Dice& dice, const std::string& text) {
  const ImplementationEntry* entry = find_implementation(text);
  if (entry == nullptr || text.find(':') != std::string::npos) return text;
  std::string drawn = text;
  for (const auto& [option, values] : entry->draws) {
    if (dice.one_in(2)) drawn += ':' + option + '=' + dice.pick(values);
  }
  for (const auto& [option, values] : entry->offers) {
    if (dice.one_in(2)) drawn += ':' + option + '=' + dice.pick(values);
  }
  return drawn;
}

}  // namespace

ImplementationDraw::ImplementationDraw(const std::vector<std::string>& texts) {
  std::vector<std::string> names = texts;
  if (names.empty()) {
    for (const ImplementationEntry* entry : implementations(ImplementationKind::real)) {
      names.push_back(entry->name);
    }
  }
  for (const std::string& name : names) {
    const auto implementation = make_implementation(name);
    if (!inputs_mismatch(*implementation, false)) from_logits_.push_back(name);
    if (!inputs_mismatch(*implementation, true)) from_hidden_.push_back(name);
  }
}

bool ImplementationDraw::is_refused(const std::string& text, const CaseSpec& spec) const {
  constexpr std::int64_t kEnough = 20;
  const auto known = outcomes_.find({text, spec.objective.kind});
  return known != outcomes_.end() && known->second.ran == 0 && known->second.skipped >= kEnough;
}

std::vector<std::string> ImplementationDraw::draw(Dice& dice, const CaseSpec& spec,
                                                  std::size_t count) const {
  std::vector<std::string> names = spec.hidden > 0 ? from_hidden_ : from_logits_;
  std::erase_if(names,
                [&](const std::string& name) { return is_refused(name, spec) && !dice.one_in(4); });
  dice.shuffle(names);
  if (names.size() > count) names.resize(count);
  for (std::string& name : names) name = with_drawn_options(dice, name);
  return names;
}

void ImplementationDraw::learn(const CaseSpec& spec, const TrialRecord& trial) {
  const std::string name = trial.implementation.substr(0, trial.implementation.find(':'));
  Outcomes& outcomes = outcomes_[{name, spec.objective.kind}];
  ++(trial.status == TrialStatus::skipped ? outcomes.skipped : outcomes.ran);
}

}  // namespace lossgrid
