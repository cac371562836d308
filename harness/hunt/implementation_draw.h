// SPDX-License-Identifier: Apache-2.0
// `ImplementationDraw`: draws of implementations for a case, with values of their options. It
// learns which implementations support which objectives, and draws the others seldom.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/hunt/dice.h"
#include "harness/problem/case/case_spec.h"
#include "reports/record/trial_record.h"

namespace lossgrid {

class ImplementationDraw {
 public:
  /// `texts`, as on the command line; empty: all real ones. Throws bad_input for an unknown name.
  explicit ImplementationDraw(const std::vector<std::string>& texts);

  bool any_from_logits() const { return !from_logits_.empty(); }
  bool any_from_hidden() const { return !from_hidden_.empty(); }

  /// Returns up to `count` different implementations that start from what the case starts from.
  std::vector<std::string> draw(Dice& dice, const CaseSpec& spec, std::size_t count) const;

  /// Notes the outcome of a trial of a case.
  void learn(const CaseSpec& spec, const TrialRecord& trial);

 private:
  struct Outcomes {
    std::int64_t ran = 0;
    std::int64_t skipped = 0;
  };

  /// True if the implementation was refused the last times and never ran.
  bool is_refused(const std::string& text, const CaseSpec& spec) const;

  std::vector<std::string> from_logits_;
  std::vector<std::string> from_hidden_;
  std::map<std::pair<std::string, std::string>, Outcomes> outcomes_;  // by text and objective
};

}  // namespace lossgrid
