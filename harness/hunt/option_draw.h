// SPDX-License-Identifier: Apache-2.0
// `OptionDraw`: draws of the options of one objective. Values come from its list of options
// (OptionDescription::draws), and what goes together from the refusals of the same list: a set that
// the objective refuses is never drawn.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/hunt/dice.h"
#include "harness/loss/objective_option.h"

namespace lossgrid {

class OptionDraw {
 public:
  /// An option with a value that is not its default, as JSON text.
  using Value = std::pair<std::string, std::string>;

  /// `kind` names an objective.
  explicit OptionDraw(std::string kind);

  /// Returns options that the objective takes, among them up to `count` drawn ones.
  ObjectiveOptions draw(Dice& dice, std::size_t count) const;

  /// Returns the values that the objective takes alone or with some companions.
  const std::vector<Value>& values() const { return values_; }

 private:
  /// Adds a value to `options`, with the companions that it needs; false if the objective refuses
  /// all of them together.
  bool add(const Value& value, ObjectiveOptions& options) const;
  bool takes(const ObjectiveOptions& options) const;
  /// Returns few other options beside which the objective takes `value`: none, those that values
  /// known so far stand with, or one of the `open` values in addition. nullopt if there are none.
  std::optional<ObjectiveOptions> find_companions(const Value& value,
                                                  const std::vector<Value>& open) const;

  std::string kind_;
  std::vector<Value> values_;
  std::map<Value, ObjectiveOptions> companions_;
};

/// Returns the draws of an objective, which are made once for a process.
const OptionDraw& option_draw(const std::string& kind);

}  // namespace lossgrid
