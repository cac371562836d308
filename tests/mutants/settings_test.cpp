// SPDX-License-Identifier: Apache-2.0
// Tests that suites have every option of every objective at a value that is not its default, and
// every name of an enumeration; and trials of every pair of options that decide together. Both
// follow from the lists of options (impls/objectives/objective_options.h).
#include <algorithm>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/hunt/setting.h"
#include "harness/loss/registry.h"
#include "harness/runner/run.h"
#include "suite_branches.h"

namespace lossgrid {
namespace {

using OptionValue = std::pair<std::string, std::string>;  // the value as JSON text
using OptionPair = std::pair<std::string, std::string>;

bool takes(const std::string& kind, const ObjectiveOptions& options) {
  try {
    find_objective(kind).make(options);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Settings of an objective that suites ci, linear and layouts have. Each stands with the fewest
/// other options of its cases without which the objective refuses it.
class Settings {
 public:
  explicit Settings(std::string kind) : kind_(std::move(kind)) {
    for (const char* suite : {"ci", "linear", "layouts"}) {
      const std::string path = std::string(LOSSGRID_SOURCE_DIR "/cases/") + suite + ".json";
      for (const CaseSpec& spec : read_suite(path).cases) {
        if (spec.objective.kind == kind_) add_all_of(spec.objective.options);
      }
    }
  }

  const std::map<OptionValue, ObjectiveOptions>& with_companions() const { return settings_; }

  bool has(const std::string& option) const {
    return std::any_of(settings_.begin(), settings_.end(),
                       [&](const auto& one) { return one.first.first == option; });
  }

 private:
  void add_all_of(const ObjectiveOptions& options) {
    for (const OptionDescription& option : find_objective(kind_).describe(options)) {
      if (option.value == option.fallback || !options.contains(option.name)) continue;
      ObjectiveOptions least = options;
      for (const auto& [name, value] : options) {
        ObjectiveOptions fewer = least;
        fewer.erase(name);
        if (name != option.name && takes(kind_, fewer)) least = fewer;
      }
      ObjectiveOptions& known =
          settings_.try_emplace({option.name, option.value}, least).first->second;
      if (least.size() < known.size()) known = least;
    }
  }

  std::string kind_;
  std::map<OptionValue, ObjectiveOptions> settings_;
};

TEST(Options, EveryOneAndEveryNameIsInACase) {
  for (const ObjectiveEntry* entry : objectives()) {
    const Settings settings(entry->kind);
    for (const OptionDescription& option : entry->document()) {
      EXPECT_TRUE(settings.has(option.name)) << entry->kind << " " << option.name;
      for (const std::string& choice : option.choices) {
        if (choice == option.fallback || choice == "0.0") continue;  // 0: leaves out a term
        EXPECT_TRUE(settings.with_companions().contains({option.name, choice}))
            << entry->kind << " " << option.name << " = " << choice;
      }
    }
  }
}

/// Returns the options of `a` with those of `b`, which decides where both have one.
ObjectiveOptions joined(const ObjectiveOptions& a, const ObjectiveOptions& b) {
  ObjectiveOptions all = b;
  all.insert(a.begin(), a.end());
  return all;
}

/// Returns a case of an objective with these options; `number` chooses masks, drift and seed.
CaseSpec case_of(const std::string& kind, const ObjectiveOptions& options, std::size_t number) {
  CaseSpec spec;
  spec.lens = "9+14+2+7+12+5+3+8";
  spec.mask = "ragged";
  spec.sample_mask = number % 2 == 0 ? "ones" : "11001111";
  spec.vocab = 24;
  spec.objective = {kind, options};
  const ObjectiveNeeds needs = find_objective(kind).make(options)->needs();
  const bool takes_topk = needs.terms.divergence.topk != Divergence::Topk::whole;
  spec.teacher_topk = takes_topk ? 5 : 0;
  spec.head = needs.head;
  if (spec.head != Head::lm) spec.vocab = 1;
  spec.drift = number % 3 == 0 ? Drift::edge : Drift::near;
  spec.seed = 1000 + number;
  spec.name = format_case(spec);
  return spec;
}

/// Returns the pairs of options that both decide in a case: the truth is another one without
/// either.
std::set<OptionPair> deciding_pairs(const CaseSpec& spec) {
  std::vector<Setting> options = settings_of(spec, Grid());
  std::erase_if(options, [](const Setting& one) { return one.kind != SettingKind::option; });
  std::vector<std::string> names;
  for (const Setting& setting : deciding_settings(spec, options)) names.push_back(setting.key);
  std::sort(names.begin(), names.end());
  std::set<OptionPair> pairs;
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (std::size_t k = i + 1; k < names.size(); ++k) pairs.insert({names[i], names[k]});
  }
  return pairs;
}

/// `PairCases`: cases of an objective in which pairs of its options decide: every pair for which
/// one was found, in sets of at most eight options.
class PairCases {
 public:
  explicit PairCases(const std::string& kind) : kind_(kind), settings_(kind) {
    for (const auto& [first, with_first] : settings_.with_companions()) {
      for (const auto& [second, with_second] : settings_.with_companions()) {
        if (first.first >= second.first) continue;
        const ObjectiveOptions both = joined(with_first, with_second);
        const OptionPair pair{"objective." + first.first, "objective." + second.first};
        if (covered_.contains(pair) || !takes(kind_, both)) continue;
        taken_.insert(pair);
        add_case(larger(both));
        for (int tries = 0; tries < 3 && !covered_.contains(pair); ++tries) add_case(both);
      }
    }
  }

  const std::vector<CaseSpec>& cases() const { return cases_; }
  std::size_t pairs_that_decide() const { return covered_.size(); }
  std::size_t pairs_that_never_do() const {
    return static_cast<std::size_t>(
        std::count_if(taken_.begin(), taken_.end(),
                      [&](const OptionPair& pair) { return !covered_.contains(pair); }));
  }

 private:
  /// Returns the options with others that the objective takes beside them.
  ObjectiveOptions larger(ObjectiveOptions set) const {
    constexpr std::size_t kMostOptions = 8;
    for (const auto& [more, with_more] : settings_.with_companions()) {
      const ObjectiveOptions all = joined(set, with_more);
      const bool is_new = !set.contains(more.first) && all.size() <= kMostOptions;
      if (is_new && has_open_pair(set, more.first) && takes(kind_, all)) set = all;
    }
    return set;
  }

  bool has_open_pair(const ObjectiveOptions& set, const std::string& option) const {
    return std::any_of(set.begin(), set.end(), [&](const auto& one) {
      const auto [low, high] = std::minmax("objective." + one.first, "objective." + option);
      return !covered_.contains({low, high});
    });
  }

  /// Adds the case of a set if a pair decides in it that decided in none before.
  void add_case(const ObjectiveOptions& set) {
    CaseSpec spec = case_of(kind_, set, number_++);
    bool is_any_new = false;
    for (const OptionPair& pair : deciding_pairs(spec)) {
      is_any_new |= covered_.insert(pair).second;
    }
    if (is_any_new) cases_.push_back(std::move(spec));
  }

  std::string kind_;
  Settings settings_;
  std::size_t number_ = 0;
  std::set<OptionPair> taken_;
  std::set<OptionPair> covered_;
  std::vector<CaseSpec> cases_;
};

TEST(Options, EveryPairThatDecidesGivesTheLossOfTheTruth) {
  int trials = 0;
  std::size_t pairs = 0;
  std::size_t never = 0;
  for (const ObjectiveEntry* entry : objectives()) {
    const PairCases cases(entry->kind);
    pairs += cases.pairs_that_decide();
    never += cases.pairs_that_never_do();
    Suite suite;
    suite.name = entry->kind;
    suite.grids = {parse_grid("tp2cp2")};
    suite.implementations = {"fused", "cp_local"};
    suite.cases = cases.cases();
    ProblemCache problems;
    run_suites({suite}, RunOptions(), problems, [&](const TrialRecord& trial) {
      EXPECT_EQ(trial.status, TrialStatus::passed) << trial.reason << "\n" << trial.reproduce;
      ++trials;
      return true;
    });
  }
  std::cout << pairs << " pairs of options decide, " << never << " never do, " << trials
            << " trials\n";
  EXPECT_GT(trials, 400);
  EXPECT_GT(pairs, 500u);
}

}  // namespace
}  // namespace lossgrid
