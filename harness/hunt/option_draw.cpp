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
  std::vector<Value> all;
  for (const OptionDescription& option : find_objective(kind_).document()) {
    for (const std::string& value : option.draws) {
      if (value != option.fallback) all.emplace_back(option.name, value);
    }
  }
  for (const Value& value : all) {
    bool found = false;
    ObjectiveOptions companions = find_companions(value, all, found);
    if (!found) continue;
    values_.push_back(value);
    companions_[value] = std::move(companions);
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

ObjectiveOptions OptionDraw::find_companions(const Value& value, const std::vector<Value>& others,
                                             bool& found) const {
  found = true;
  const ObjectiveOptions alone{value};
  if (takes(alone)) return {};
  for (const Value& one : others) {
    if (one.first != value.first && takes({value, one})) return {one};
  }
  for (const Value& one : others) {
    if (!is_switch(one) || one.first == value.first) continue;
    for (const Value& other : others) {
      const bool is_third = is_switch(other) && other.first != value.first;
      if (is_third && one.first < other.first && takes({value, one, other})) return {one, other};
    }
  }
  found = false;
  return {};
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
