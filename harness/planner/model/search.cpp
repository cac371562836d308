// SPDX-License-Identifier: Apache-2.0
#include "harness/planner/model/search.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/problem/batch/case_data.h"
#include "harness/problem/batch/packed_batch.h"

namespace lossgrid {
namespace {

constexpr std::int64_t kMostCountedTokens = std::int64_t{1} << 26;

TimedPlan timed(const PackLayout& layout, const LossImplementation& implementation,
                const std::string& text, const TimeModel& model, double share) {
  TimedPlan plan{plan_implementation(layout, implementation), std::nullopt};
  plan.row.implementation = text;
  if (plan.row.skipped.empty()) {
    plan.time = predict_time(layout.problem(), implementation, model, share);
  }
  return plan;
}

/// Implementation of a search with its text.
struct SearchedImplementation {
  std::string text;
  std::unique_ptr<LossImplementation> made;
};

/// Adds the plans of one grid, unless the case does not fit the grid.
void add_plans(const SearchRequest& request, const Grid& grid,
               const std::vector<SearchedImplementation>& implementations, const TimeModel& model,
               double share, std::vector<TimedPlan>& plans) {
  try {
    const PackLayout layout(request.spec, grid);
    for (const SearchedImplementation& implementation : implementations) {
      TimedPlan plan = timed(layout, *implementation.made, implementation.text, model, share);
      if (plan.time) plans.push_back(std::move(plan));
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input || grid == Grid{}) throw;
  }
}

}  // namespace

double valid_share(const CaseSpec& spec) {
  const std::vector<std::int64_t> lengths = case_lengths(spec);
  std::vector<std::int64_t> cu{0};
  for (const std::int64_t length : lengths) cu.push_back(cu.back() + length);
  if (cu.back() > kMostCountedTokens) return 1;
  const std::vector<std::uint8_t> samples =
      case_sample_mask(spec, static_cast<std::int64_t>(lengths.size()));
  const std::vector<std::uint8_t> tokens = case_token_mask(spec, cu, samples);
  std::int64_t predicting = 0;
  std::int64_t valid = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    for (std::int64_t t = cu[i] + 1; t < cu[i + 1]; ++t) {
      ++predicting;
      valid += samples[i] != 0 && tokens[static_cast<std::size_t>(t)] != 0 ? 1 : 0;
    }
  }
  return predicting > 0 ? static_cast<double>(valid) / static_cast<double>(predicting) : 0;
}

TimedPlan plan_time(const CaseSpec& spec, const Grid& grid, const std::string& implementation,
                    const TimeModel& model) {
  const std::unique_ptr<LossImplementation> chosen = make_implementation(implementation);
  const PackLayout layout(spec, grid, chosen->describe().padding);
  return timed(layout, *chosen, implementation, model, valid_share(spec));
}

std::vector<Grid> searched_grids(const CaseSpec& spec, int most_ranks) {
  std::vector<Grid> grids;
  for (int tp = 1; tp <= std::min<std::int64_t>(most_ranks, spec.vocab); tp *= 2) {
    for (int cp = 1; tp * cp <= most_ranks; cp *= 2) {
      Grid grid;
      grid.tp = tp;
      grid.cp = cp;
      grids.push_back(grid);
      if (spec.hidden == 0 || tp == 1) continue;
      grid.sp = true;
      grids.push_back(grid);
    }
  }
  return grids;
}

std::vector<TimedPlan> search_grids(const SearchRequest& request, const TimeModel& model) {
  std::vector<SearchedImplementation> implementations;
  for (const std::string& text : request.implementations) {
    implementations.push_back({text, make_implementation(text)});
  }
  const double share = valid_share(request.spec);
  std::vector<TimedPlan> plans;
  for (const Grid& grid : searched_grids(request.spec, request.most_ranks)) {
    add_plans(request, grid, implementations, model, share, plans);
  }
  const auto order = [&](const TimedPlan& plan) {
    return std::tuple(plan.row.peak_bytes() > request.memory_bytes, plan.seconds(),
                      plan.row.grid.ranks());
  };
  std::stable_sort(plans.begin(), plans.end(),
                   [&](const TimedPlan& a, const TimedPlan& b) { return order(a) < order(b); });
  return plans;
}

}  // namespace lossgrid
