// SPDX-License-Identifier: Apache-2.0
// The truth of whole cases, from their text to the gradient by the given logits, against a second
// judge that reads options, masks, temperatures and inputs for itself (impls/objectives/plain).
// Every option of every objective stands in a case in which it alone changes what the second judge
// finds: an option that is ignored, read with another sign or taken for another one is noticed.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/problem/batch/partition.h"
#include "harness/runner/job/problem_cache.h"
#include "harness/verify/truth/input_column.h"
#include "impls/objectives/plain/plain_judge.h"
#include "impls/objectives/plain/plain_objective.h"

namespace lossgrid {
namespace {

/// An option of a case and the text that it is compared with; "" for the default.
struct PlainOption {
  std::string name;
  std::string value;
  std::string other;
};

std::vector<PlainOption> plain_options_of(const std::string& text) {
  std::vector<PlainOption> options;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    const auto bar = word.find('|');
    options.push_back({word.substr(0, equals),
                       word.substr(equals + 1, bar == std::string::npos ? bar : bar - equals - 1),
                       bar == std::string::npos ? "" : word.substr(bar + 1)});
  }
  return options;
}

std::string plain_text(const plain::OptionCase& one, std::uint64_t seed) {
  const bool has_batch = one.keys.starts_with("lens=");
  std::string text =
      fmt::format("objective={} {} seed={} {}", one.objective,
                  has_batch ? "mask=ragged" : plain::plain_objectives().at(one.objective).batch,
                  seed, one.keys);
  for (const PlainOption& option : plain_options_of(one.options)) {
    text += fmt::format(" objective.{}={}", option.name, option.value);
  }
  return text;
}

/// Keys that change rows of logits and inputs, for every objective over a vocabulary but `distill`.
constexpr const char* kRowKeys[] = {
    "", "temperature=0.6 sequence_temperatures=true logit_softcap=4 logit_scale=1.5", "top_k=3",
    "top_p=0.8 filtered_targets=zero temperature=1.3", "drift=far"};

bool has_vocabulary(const std::string& objective) {
  return objective != "value" && objective != "bradley_terry" && objective != "distill";
}

/// True if the objective of a case takes its options.
bool is_legal(const std::string& text) {
  try {
    make_objective(parse_case(text).objective, false);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// A case with its truth, and what the second judge needs of it.
struct PlainCase {
  explicit PlainCase(const std::string& text) : prepared(prepare(make_problem(parse_case(text)))) {
    std::shared_ptr<const Problem> problem = prepared.problem;
    const auto plans = partition(*problem, 1, 1);
    packs.of_sequence.assign(problem->lengths.size(), 0);
    for (const MicrobatchPlan& plan : plans[0]) {
      if (!plan.dummy) {
        for (const std::int64_t i : plan.sequences) packs.of_sequence[i] = packs.count;
      }
      ++packs.count;
    }
    if (prepared.objective->needs().packs_are_groups) problem = grouped_by_pack(*problem, plans);
    truth = truth_of(prepared, *problem, 3, {});
  }

  const Problem& problem() const { return *prepared.problem; }

  PreparedProblem prepared;
  plain::Packs packs;
  std::shared_ptr<const Truth> truth;
};

/// Returns the true gradient by the given logits of a row.
std::vector<double> true_row_gradient(const PlainCase& made, std::int64_t t) {
  const Problem& problem = made.problem();
  const RowTruth& row = made.truth->rows[static_cast<std::size_t>(t)];
  const RowGradientTruth gradient = made.truth->objective.gradient(t);
  const LogitGradient by_logit(row, gradient);
  const GradientBound bound(row, gradient, DType::f32, 3);
  const InputTransform transform = input_transform(problem, row, t);
  const DivergenceColumns divergence(problem, row, gradient.terms[RowTerm::divergence], t, 0,
                                     problem.spec.vocab, 3);
  std::vector<double> z(static_cast<std::size_t>(problem.spec.vocab));
  problem.logits->read(t, 0, std::span<double>(z));
  std::vector<double> p(z.size());
  truth_probabilities(row, z, p);
  std::vector<double> out;
  for (std::int64_t v = 0; v < problem.spec.vocab; ++v) {
    const auto k = static_cast<std::size_t>(v);
    DivergenceColumn column;
    if (divergence.is_any()) column = divergence.at(v, z[k], 0);
    out.push_back(input_column(bound, by_logit, transform, z[k], p[k], v == row.target, nullptr,
                               divergence.is_any() ? &column : nullptr)
                      .want);
  }
  return out;
}

/// Compares a truth with the second judge; returns the differences, "" if there are none.
std::string plain_differences(const PlainCase& made) {
  const plain::Case of(made.problem(), made.packs);
  const plain::Judged want = plain::judge(of);
  std::string text;
  const auto compare = [&](const std::string& what, double got, double expected, double allowed) {
    if (std::abs(got - expected) <= allowed * (1 + std::abs(expected))) return;
    text += fmt::format("{}: truth {:.12g}, second judge {:.12g}\n", what, got, expected);
  };
  compare("loss", made.truth->objective.loss.value, want.loss, 1e-9);
  for (const auto& [name, value] : want.metrics) {
    const auto found = made.truth->objective.metrics.find(name);
    if (found == made.truth->objective.metrics.end()) {
      text += "no metric " + name + "\n";
      continue;
    }
    const std::optional<Enclosure> got = found->second.value();
    if (got.has_value() != value.has_value()) text += "a value of " + name + "\n";
    if (got && value) compare(name, got->value, *value, 1e-9);
  }
  for (std::size_t k = 0; k < of.tokens.size(); ++k) {
    const std::int64_t t = of.tokens[k].row;
    if (made.truth->objective.grad_sides.contains(t)) continue;  // at a switch of the formula
    const std::vector<double> got = true_row_gradient(made, t);
    for (std::size_t v = 0; v < got.size(); ++v) {
      if (std::isnan(want.gradient[k][v])) continue;
      // A difference of two losses is rounded in proportion to them.
      compare(fmt::format("gradient of row {} id {}", t, v), got[v], want.gradient[k][v],
              1e-7 + 1e-10 * std::abs(want.loss));
    }
  }
  return text;
}

/// Returns true if both judgements are the same.
bool same_judgement(const plain::Judged& a, const plain::Judged& b) {
  const auto near = [](double x, double y) {
    return std::isnan(x) || std::isnan(y) || std::abs(x - y) <= 1e-6 * (1 + std::abs(x));
  };
  if (!near(a.loss, b.loss) || a.gradient.size() != b.gradient.size()) return false;
  for (const auto& [name, value] : a.metrics) {
    const auto other = b.metrics.find(name);
    if (other == b.metrics.end()) return false;
    if (value && other->second && !near(*value, *other->second)) return false;
  }
  for (std::size_t k = 0; k < a.gradient.size(); ++k) {
    for (std::size_t v = 0; v < a.gradient[k].size(); ++v) {
      if (!near(a.gradient[k][v], b.gradient[k][v])) return false;
    }
  }
  return true;
}

constexpr std::uint64_t kPlainSeeds[] = {1, 2, 3};

TEST(PlainObjectives, TruthsAreThoseOfTheSecondJudge) {
  for (const plain::OptionCase& one : plain::option_cases()) {
    for (const std::uint64_t seed : kPlainSeeds) {
      const std::string text = plain_text(one, seed);
      EXPECT_EQ(plain_differences(PlainCase(text)), "") << text;
    }
  }
}

/// An option that is left out of a case, where the objective does not need it, has the default of
/// the documentation.
TEST(PlainObjectives, DefaultsAreThoseOfTheSecondJudge) {
  int judged = 0;
  for (const plain::OptionCase& one : plain::option_cases()) {
    const std::vector<PlainOption> options = plain_options_of(one.options);
    for (std::size_t left_out = 0; options.size() > 1 && left_out < options.size(); ++left_out) {
      plain::OptionCase fewer{"", one.keys, one.objective};
      for (std::size_t k = 0; k < options.size(); ++k) {
        if (k != left_out) fewer.options += options[k].name + '=' + options[k].value + ' ';
      }
      const std::string text = plain_text(fewer, 4);
      if (!is_legal(text)) continue;
      EXPECT_EQ(plain_differences(PlainCase(text)), "") << text;
      ++judged;
    }
  }
  EXPECT_GT(judged, 100);
}

/// Options of two cases of an objective together, which an objective may refuse: those of the
/// second count where both have one.
TEST(PlainObjectives, TruthsOfCasesTogetherAreThoseOfTheSecondJudge) {
  std::mt19937 random(50);
  const std::vector<plain::OptionCase> all = plain::option_cases();
  std::map<std::string, int> judged;
  for (int draw = 0; draw < 1200; ++draw) {
    const plain::OptionCase& a = all[random() % all.size()];
    const plain::OptionCase& b = all[random() % all.size()];
    if (a.objective != b.objective || a.options == b.options) continue;
    if (!a.keys.empty() && !b.keys.empty() && a.keys != b.keys) continue;
    std::map<std::string, std::string> options;
    for (const plain::OptionCase* one : {&b, &a}) {
      for (const PlainOption& option : plain_options_of(one->options)) {
        options.emplace(option.name, option.value);
      }
    }
    plain::OptionCase both{"", a.keys.empty() ? b.keys : a.keys, a.objective};
    for (const auto& [name, value] : options) both.options += name + '=' + value + ' ';
    if (both.keys.empty() && has_vocabulary(a.objective)) both.keys = kRowKeys[random() % 5];
    const std::string text = plain_text(both, random() % 1000);
    if (!is_legal(text)) continue;
    EXPECT_EQ(plain_differences(PlainCase(text)), "") << text;
    judged[a.objective] += 1;
  }
  EXPECT_GT(judged["clipped_pg"], 100);
}

/// Each option of each case changes the judgement of one of its batches.
TEST(PlainObjectives, EveryOptionOfACaseDecides) {
  for (const plain::OptionCase& one : plain::option_cases()) {
    std::map<std::string, bool> decides;
    for (const std::uint64_t seed : kPlainSeeds) {
      const PlainCase made(plain_text(one, seed));
      const plain::Judged given = plain::judge(plain::Case(made.problem(), made.packs));
      for (const PlainOption& option : plain_options_of(one.options)) {
        if (decides[option.name]) continue;
        Problem changed = made.problem();
        changed.spec.objective.options.erase(option.name);
        if (!option.other.empty()) changed.spec.objective.options[option.name] = option.other;
        decides[option.name] =
            !same_judgement(given, plain::judge(plain::Case(changed, made.packs)));
      }
    }
    for (const auto& [name, is_decisive] : decides) {
      EXPECT_TRUE(is_decisive) << plain_text(one, 1) << ": " << name;
    }
  }
}

/// A new option needs a case, and a new objective too.
TEST(PlainObjectives, EveryOptionOfEveryObjectiveStandsInACase) {
  std::map<std::string, std::set<std::string>> named;
  for (const plain::OptionCase& one : plain::option_cases()) {
    for (const PlainOption& option : plain_options_of(one.options)) {
      named[one.objective].insert(option.name);
    }
  }
  for (const ObjectiveEntry* entry : objectives()) {
    EXPECT_TRUE(plain::plain_objectives().contains(entry->kind)) << entry->kind;
    for (const OptionDescription& option : entry->document()) {
      EXPECT_TRUE(named[entry->kind].contains(option.name)) << entry->kind << " " << option.name;
    }
  }
}

}  // namespace
}  // namespace lossgrid
