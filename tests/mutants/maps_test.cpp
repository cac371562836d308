// SPDX-License-Identifier: Apache-2.0
// Tests that suites have every map of logits, in pairs and with every row term, and every kind of
// divergence from a teacher's top k.
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "harness/loss/registry.h"
#include "suite_branches.h"

namespace lossgrid {
namespace {

/// A part of a case: a map of logits, or an option of the objective with a row term.
struct Part {
  const char* name;
  bool (*is_in)(const CaseSpec&);
};

bool has_option(const CaseSpec& spec, const char* option) {
  return spec.objective.options.contains(option);
}

const Part kMaps[] = {
    {"logit_scale", [](const CaseSpec& spec) { return spec.logit_scale != 1; }},
    {"logit_softcap", [](const CaseSpec& spec) { return spec.logit_softcap != 0; }},
    {"temperature", [](const CaseSpec& spec) { return spec.temperature != 1; }},
    {"sequence_temperatures", [](const CaseSpec& spec) { return spec.sequence_temperatures; }},
};
const Part kTerms[] = {
    {"entropy", [](const CaseSpec& spec) { return has_option(spec, "entropy_coefficient"); }},
    {"smoothing", [](const CaseSpec& spec) { return has_option(spec, "label_smoothing"); }},
    {"z-loss", [](const CaseSpec& spec) { return has_option(spec, "z_loss_coefficient"); }},
    {"divergence", [](const CaseSpec& spec) { return spec.objective.kind == "distill"; }},
};

bool is_in_one_case(const Suite& suite, const Part& a, const Part& b) {
  return std::any_of(suite.cases.begin(), suite.cases.end(),
                     [&](const CaseSpec& spec) { return a.is_in(spec) && b.is_in(spec); });
}

TEST(Maps, EveryPairIsInACaseAndEveryTermWithEach) {
  const Suite linear = read_suite(LOSSGRID_SOURCE_DIR "/cases/linear.json");
  for (const Suite* suite : {&suite_ci(), &linear}) {
    for (const Part& map : kMaps) {
      for (const Part& other : kMaps) {
        EXPECT_TRUE(is_in_one_case(*suite, map, other))
            << suite->name << " " << map.name << " " << other.name;
      }
      for (const Part& term : kTerms) {
        EXPECT_TRUE(is_in_one_case(*suite, map, term))
            << suite->name << " " << map.name << " " << term.name;
      }
    }
  }
}

/// Returns the kinds of divergences from a teacher's top k, with their convention.
std::set<std::string> divergences_from_topk(const Suite& suite) {
  std::set<std::string> kinds;
  for (const CaseSpec& spec : suite.cases) {
    if (spec.objective.kind != "distill" || spec.teacher_topk == 0) continue;
    const auto type = spec.objective.options.find("kl_type");
    const bool is_named = type != spec.objective.options.end();
    kinds.insert((is_named ? type->second : "\"forward\"") +
                 (has_option(spec, "zero_outside_topk") ? " zero outside" : "") +
                 (has_option(spec, "loss_mode") ? " clamped" : "") +
                 (has_option(spec, "distillation_add_tail") ? " tail" : ""));
  }
  return kinds;
}

TEST(Teachers, EveryKindOfDivergenceIsFromATopK) {
  const std::set<std::string> all{"\"forward\"",
                                  "\"reverse\"",
                                  "\"mixed\"",
                                  "\"jsd\"",
                                  "\"forward\" zero outside",
                                  "\"forward\" clamped",
                                  "\"forward\" tail",
                                  "\"reverse\" tail",
                                  "\"mixed\" tail",
                                  "\"jsd\" tail",
                                  "\"reverse\" zero outside",
                                  "\"mixed\" zero outside"};
  EXPECT_EQ(divergences_from_topk(suite_ci()), all);
  Suite without = suite_ci();
  std::erase_if(without.cases, [](const CaseSpec& spec) {
    return has_option(spec, "kl_type") && spec.teacher_topk > 0;
  });
  EXPECT_EQ(
      divergences_from_topk(without),
      (std::set<std::string>{"\"forward\"", "\"forward\" clamped", "\"forward\" zero outside"}));
}

TEST(Maps, ASuiteWithoutAPairIsSeen) {
  Suite without = suite_ci();
  std::erase_if(without.cases, [](const CaseSpec& spec) {
    return spec.logit_softcap != 0 && spec.sequence_temperatures;
  });
  EXPECT_FALSE(is_in_one_case(without, kMaps[1], kMaps[3]));
  EXPECT_TRUE(is_in_one_case(without, kMaps[1], kMaps[1]));
}

}  // namespace
}  // namespace lossgrid
