// SPDX-License-Identifier: Apache-2.0
#include "harness/planner/plan/plan.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/loss/loss_problem.h"
#include "harness/loss/registry.h"
#include "harness/problem/batch/case_data.h"
#include "harness/problem/batch/problem.h"
#include "harness/problem/case/case_keys.h"

namespace lossgrid {
namespace {

constexpr std::int64_t kMostFittedTokens = std::int64_t{1} << 30;

std::optional<SkipReason> no_plan(const PackLayout& layout,
                                  const LossImplementation& implementation) {
  const LossProblem problem = layout.problem();
  if (auto reason = inputs_mismatch(implementation, problem.from_hidden())) return reason;
  if (!implementation.describe().has_cost_model) {
    return SkipReason{"what it needs is measured when it runs and not known before"};
  }
  if (layout.misfit()) return layout.misfit();
  return implementation.unsupported(problem);
}

void add_collectives(const std::string& phase, const std::string& group, int ranks,
                     const CollectiveCounts& counts, PlanRow& row) {
  for (int c = 0; c < kCollectives; ++c) {
    const auto operation = static_cast<Collective>(c);
    const CollectiveCount& count = counts[operation];
    if (count.calls == 0) continue;
    row.collectives.push_back({phase, group, ranks, operation, count,
                               ring_wire_bytes(operation, ranks, count.payload_bytes)});
  }
}

/// Returns the case with another value of the key.
CaseSpec with_value(const CaseSpec& spec, const std::string& key, std::int64_t value) {
  CaseSpec out = spec;
  if (key == "seqs") {
    out.seqs = value;
  } else if (key == "seq_len") {
    out.seq_len = value;
  } else {
    out.lens = std::to_string(value);
  }
  return out;
}

/// Returns the key of the case that `key` stands for. Throws bad_input if the case fixes it.
std::string varied_key(const CaseSpec& spec, FitKey key) {
  if (has_mask_bits(spec.mask)) {
    throw_bad_input("mask = {} has bits for given lengths, and a fit varies them", spec.mask);
  }
  if (!has_explicit_lengths(spec)) return key == FitKey::seqs ? "seqs" : "seq_len";
  if (key == FitKey::seqs) {
    throw_bad_input(
        "lens = {} gives the sequences; a fit of seqs needs one of uniform, lognormal, upstream",
        spec.lens);
  }
  if (spec.lens.find('+') != std::string::npos) {
    throw_bad_input(
        "lens = {} gives several lengths; a fit varies a single one, or seq_len of one of uniform, "
        "lognormal, upstream",
        spec.lens);
  }
  return "lens";
}

std::int64_t most_value(const CaseSpec& spec, const std::string& key) {
  if (key == "lens") return kMostFittedTokens;
  if (key == "seq_len") return kMostFittedTokens / std::max<std::int64_t>(1, spec.seqs);
  return std::min(kMaxSequences, kMostFittedTokens / std::max<std::int64_t>(1, spec.seq_len));
}

}  // namespace

const PlannedPhase& PlanRow::peak_phase() const {
  return *std::max_element(
      phases.begin(), phases.end(),
      [](const PlannedPhase& a, const PlannedPhase& b) { return a.peak_bytes < b.peak_bytes; });
}

PlanRow plan_trial(const CaseSpec& spec, const Grid& grid, const std::string& implementation) {
  const std::unique_ptr<LossImplementation> chosen = make_implementation(implementation);
  PlanRow row = plan_implementation(PackLayout(spec, grid, chosen->describe().padding), *chosen);
  row.implementation = implementation;
  return row;
}

PlanRow plan_implementation(const PackLayout& layout, const LossImplementation& implementation) {
  const LossProblem problem = layout.problem();
  const Grid& grid = problem.grid;
  PlanRow row;
  row.spec = layout.spec();
  row.grid = grid;
  row.implementation = implementation.describe().name;
  row.skipped = text_of(no_plan(layout, implementation));
  if (!row.skipped.empty()) return row;

  const Cost cost = implementation.cost(problem);
  const bool whole_pack = implementation.describe().logprobs == LogprobScope::pack;
  row.tokens = layout.tokens();
  row.padded_tokens = problem.rows();
  row.chunks = cost.chunks;
  row.inputs_bytes = problem.input_bytes();
  const bool in_place = implementation.describe().in_place;
  row.gradients_bytes = in_place ? 0 : problem.gradient_bytes();
  row.outputs_bytes = static_cast<std::int64_t>(sizeof(float)) * problem.token_columns() *
                      (whole_pack ? problem.rows() : problem.local_rows());
  const auto add_phase = [&](std::size_t index, const std::string& name, const PhaseCost& phase,
                             std::int64_t held) {
    row.phases[index] = {name, phase.workspace_bytes, held,
                         row.inputs_bytes + phase.workspace_bytes + held, phase.flops};
    add_collectives(name, "tp", grid.tp, phase.tp, row);
    add_collectives(name, "cp", grid.cp, phase.cp, row);
  };
  add_phase(0, "plan", cost.plan, 0);
  // The fused forward-backward makes outputs and gradients in the forward pass.
  const std::int64_t swept = implementation.describe().one_sweep ? row.gradients_bytes : 0;
  add_phase(1, "forward", cost.forward, row.outputs_bytes + swept);
  add_phase(2, "backward", cost.backward, row.outputs_bytes + row.gradients_bytes);
  return row;
}

std::int64_t ring_wire_bytes(Collective operation, int ranks, std::int64_t payload_bytes) {
  if (ranks == 1) return 0;
  switch (operation) {
    case Collective::all_reduce:
      return 2 * payload_bytes - 2 * payload_bytes / ranks;
    case Collective::all_gather:
      return (ranks - 1) * payload_bytes;
    case Collective::reduce_scatter:
      return payload_bytes - payload_bytes / ranks;
    case Collective::broadcast:
      return payload_bytes;
    default:
      return 0;
  }
}

Fit fit_case(const CaseSpec& spec, const Grid& grid, const std::string& implementation, FitKey key,
             std::int64_t limit_bytes) {
  Fit fit;
  fit.key = varied_key(spec, key);
  const ObjectiveNeeds needs =
      make_objective(spec.objective, spec.statistics, spec.predictions)->needs();
  const std::int64_t unit = fit.key == "seqs" ? needs.sequences_per_unit : 1;
  const std::int64_t most = std::max(std::int64_t{1}, most_value(spec, fit.key) / unit);
  // Keeps the plan with `units` of the key if it fits.
  const auto keep_if_fits = [&](std::int64_t units) {
    PlanRow row = plan_trial(with_value(spec, fit.key, units * unit), grid, implementation);
    const bool fits = row.skipped.empty() && row.peak_bytes() <= limit_bytes;
    if (fits || fit.value == 0) fit.row = std::move(row);
    if (fits) fit.value = units * unit;
    return fits;
  };
  if (!keep_if_fits(1)) {
    fit.reason = fit.row.skipped;
    if (fit.reason.empty()) {
      fit.reason = fmt::format("{} = {} needs {} ({} bytes), more than {} ({} bytes)", fit.key,
                               unit, format_bytes(fit.row.peak_bytes()), fit.row.peak_bytes(),
                               format_bytes(limit_bytes), limit_bytes);
    }
    return fit;
  }
  std::int64_t low = 1;  // fits
  std::int64_t high = 2;
  while (high <= most && keep_if_fits(high)) {
    low = high;
    high *= 2;
  }
  high = std::min(high, most + 1);  // does not fit, or exceeds the search
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    if (keep_if_fits(middle)) {
      low = middle;
    } else {
      high = middle;
    }
  }
  fit.at_least = low == most;
  return fit;
}

}  // namespace lossgrid
