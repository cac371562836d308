// SPDX-License-Identifier: Apache-2.0
#include "harness/hunt/option_draw.h"

#include "harness/core/error.h"
#include "harness/loss/registry.h"

namespace lossgrid {
namespace {

/// True for true, false and names: what an option needs beside it is seldom a number.
bool is_switch(const OptionDraw::Value& value) {
  return value.second[0] == '"' || value.second == "true" || value.second == "false";
}

}  // namespace

OptionDraw::OptionDraw(std::string kind) : kind_(std::move(kind)) {
  std::vector<Value> open;
  for (const OptionDescription& option : find_objective(kind_).document()) {
    for (const std::string& value : option.draws) {
      if (value != option.fallback) open.emplace_back(option.name, value);
    }
  }
  // A companion may need others itself.
  std::size_t before = 0;
  while (open.size() != before) {
    before = open.size();
    std::vector<Value> still_open;
    for (const Value& value : open) {
      if (const auto companions = find_companions(value, open)) {
        values_.push_back(value);
        companions_[value] = *companions;
      } else {
        still_open.push_back(value);
      }
    }
    open = std::move(still_open);
  }
}

bool OptionDraw::takes(const ObjectiveOptions& options) const {
  try {
    find_objective(kind_).make(options);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::optional<ObjectiveOptions> OptionDraw::find_companions(const Value& value,
                                                            const std::vector<Value>& open) const {
  // Options that the objective takes: none, and the switches that are known, with what they need.
  std::vector<ObjectiveOptions> taken{{}};
  for (const Value& known : values_) {
    if (!is_switch(known) || known.first == value.first) continue;
    ObjectiveOptions all = companions_.at(known);
    all.insert(known);
    if (!all.contains(value.first)) taken.push_back(std::move(all));
  }
  const auto takes_with = [&](const ObjectiveOptions& companions) {
    ObjectiveOptions all = companions;
    return all.insert(value).second && takes(all);
  };
  for (const ObjectiveOptions& some : taken) {
    if (takes_with(some)) return some;
  }
  for (const ObjectiveOptions& some : taken) {
    for (const Value& one : open) {
      ObjectiveOptions more = some;
      if (more.insert(one).second && takes_with(more)) return more;
    }
  }
  for (const ObjectiveOptions& some : taken) {
    for (const ObjectiveOptions& others : taken) {
      ObjectiveOptions more = some;
      more.insert(others.begin(), others.end());
      if (takes_with(more)) return more;
    }
  }
  return std::nullopt;
}

bool OptionDraw::add(const Value& value, ObjectiveOptions& options) const {
  if (options.contains(value.first)) return false;
  ObjectiveOptions more = options;
  more.insert(value);
  if (!takes(more)) {
    const ObjectiveOptions& companions = companions_.at(value);
    more.insert(companions.begin(), companions.end());
    if (companions.empty() || !takes(more)) return false;
  }
  options = std::move(more);
  return true;
}

ObjectiveOptions OptionDraw::draw(Dice& dice, std::size_t count) const {
  ObjectiveOptions options;
  if (values_.empty()) return options;
  std::size_t added = 0;
  for (std::size_t tries = 3 * count; tries > 0 && added < count; --tries) {
    if (add(dice.pick(values_), options)) ++added;
  }
  return options;
}

const OptionDraw& option_draw(const std::string& kind) {
  static std::map<std::string, OptionDraw> draws;
  return draws.try_emplace(kind, kind).first->second;
}

}  // namespace lossgrid
