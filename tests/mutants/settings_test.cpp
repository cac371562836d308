// SPDX-License-Identifier: Apache-2.0
// Tests that suites have every option of every objective at a value that is not its default, and
// every name of an enumeration; and trials of every pair of options that an objective takes. Both
// follow from the lists of options (impls/objectives/objective_options.h).
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/runner/run.h"
#include "suite_branches.h"

namespace lossgrid {
namespace {

using Setting = std::pair<std::string, std::string>;  // option, value as JSON text
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

  const std::map<Setting, ObjectiveOptions>& with_companions() const { return settings_; }

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
  std::map<Setting, ObjectiveOptions> settings_;
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

/// Returns the pairs of options with values that are not their defaults.
std::set<OptionPair> pairs_in(const std::string& kind, const ObjectiveOptions& options) {
  std::vector<std::string> changed;
  for (const OptionDescription& option : find_objective(kind).describe(options)) {
    if (option.value != option.fallback) changed.push_back(option.name);
  }
  std::sort(changed.begin(), changed.end());
  std::set<OptionPair> pairs;
  for (std::size_t i = 0; i < changed.size(); ++i) {
    for (std::size_t k = i + 1; k < changed.size(); ++k) pairs.insert({changed[i], changed[k]});
  }
  return pairs;
}

/// Returns sets of at most eight options each, such that every pair of options that the objective
/// takes is in one of them.
std::vector<ObjectiveOptions> sets_of_all_pairs(const std::string& kind) {
  constexpr std::size_t kMostOptions = 8;
  const Settings settings(kind);
  std::vector<ObjectiveOptions> sets;
  std::set<OptionPair> covered;
  const auto new_pairs = [&](const ObjectiveOptions& options) {
    const std::set<OptionPair> pairs = pairs_in(kind, options);
    return std::count_if(pairs.begin(), pairs.end(),
                         [&](const OptionPair& pair) { return !covered.contains(pair); });
  };
  for (const auto& [first, with_first] : settings.with_companions()) {
    for (const auto& [second, with_second] : settings.with_companions()) {
      if (first.first >= second.first) continue;
      ObjectiveOptions set = joined(with_first, with_second);
      if (!takes(kind, set) || covered.contains({first.first, second.first})) continue;
      if (new_pairs(set) == 0) continue;
      for (const auto& [more, with_more] : settings.with_companions()) {
        const ObjectiveOptions larger = joined(set, with_more);
        if (larger.size() > kMostOptions || set.contains(more.first)) continue;
        if (takes(kind, larger) && new_pairs(larger) > new_pairs(set)) set = larger;
      }
      const std::set<OptionPair> pairs = pairs_in(kind, set);
      covered.insert(pairs.begin(), pairs.end());
      sets.push_back(set);
    }
  }
  return sets;
}

TEST(Options, EveryPairThatIsTakenGivesTheLossOfTheTruth) {
  int trials = 0;
  for (const ObjectiveEntry* entry : objectives()) {
    Suite suite;
    suite.name = entry->kind;
    suite.grids = {parse_grid("tp2cp2")};
    suite.implementations = {"fused", "cp_local"};
    const std::vector<ObjectiveOptions> sets = sets_of_all_pairs(entry->kind);
    for (std::size_t k = 0; k < sets.size(); ++k) {
      CaseSpec spec;
      spec.lens = "9+14+2+7+12+5+3+8";
      spec.mask = "ragged";
      spec.sample_mask = k % 2 == 0 ? "ones" : "11001111";
      spec.vocab = 24;
      spec.objective = {entry->kind, sets[k]};
      const ObjectiveNeeds needs = entry->make(sets[k])->needs();
      const bool takes_topk = needs.terms.divergence.topk != Divergence::Topk::whole;
      spec.teacher_topk = takes_topk ? 5 : 0;
      spec.head = needs.head;
      if (spec.head != Head::lm) spec.vocab = 1;
      spec.drift = k % 3 == 0 ? Drift::edge : Drift::near;
      spec.seed = 1000 + k;
      spec.name = format_case(spec);
      suite.cases.push_back(spec);
    }
    ProblemCache problems;
    run_suites({suite}, RunOptions(), problems, [&](const TrialRecord& trial) {
      EXPECT_EQ(trial.status, TrialStatus::passed) << trial.reason << "\n" << trial.reproduce;
      ++trials;
      return true;
    });
  }
  EXPECT_GT(trials, 400);  // of some 500 pairs
}

}  // namespace
}  // namespace lossgrid
