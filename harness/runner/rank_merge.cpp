// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/rank_merge.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "reports/table.h"

namespace lossgrid {
namespace {

const std::vector<std::string>& phases() {
  static const std::vector<std::string> names{"plan", "forward", "backward"};
  return names;
}

CheckRecord to_record(const Check& check) {
  CheckRecord record;
  record.name = check.name();
  record.passed = check.passed();
  record.ratio = check.ratio();
  record.error_abs = check.error();
  record.bound_abs = check.bound();
  record.compared = check.compared();
  record.beyond_bound = check.beyond_bound();
  if (check.has_worst()) {
    const ElementPlace& at = check.place();
    record.worst =
        WorstElement{at.rank, at.sequence, at.token, at.vocab_id, check.got(), check.want()};
  }
  return record;
}

std::string describe_worst(const CheckRecord& check) {
  if (!check.worst) return check.name;
  return fmt::format("{}: ratio {:.3g} at {}", check.name, check.ratio, format_worst(*check.worst));
}

void merge_checks(std::vector<RankResult>& ranks, TrialRecord& record) {
  std::vector<Check> merged;
  const auto add = [&](const Check& check) {
    const auto same = std::find_if(merged.begin(), merged.end(),
                                   [&](const Check& m) { return m.name() == check.name(); });
    if (same == merged.end()) {
      merged.push_back(check);
    } else {
      same->merge(check);
    }
  };
  BiasSums bias;
  for (RankResult& rank : ranks) {
    for (const Check& check : rank.checks) add(check);
    add(rank.gradient.elements);
    bias.add(rank.gradient.bias);
  }
  merged.push_back(check_bias(bias));
  for (const Check& check : merged) record.checks.push_back(to_record(check));
}

void add_invariant(TrialRecord& record, const std::string& name, bool holds,
                   const std::string& detail) {
  record.invariants.push_back({name, holds ? "passed" : "failed", holds ? "" : detail});
}

/// Every rank looked at the same invariants in the same order.
void merge_rank_invariants(const std::vector<RankResult>& ranks, TrialRecord& record) {
  for (std::size_t i = 0; i < ranks[0].invariants.size(); ++i) {
    const Invariant* worst = &ranks[0].invariants[i];
    for (const RankResult& rank : ranks) {
      if (rank.invariants[i].status == Invariant::Status::failed) {
        worst = &rank.invariants[i];
        break;
      }
    }
    InvariantRecord merged{worst->name, "passed", worst->detail};
    if (worst->status == Invariant::Status::failed) merged.status = "failed";
    if (worst->status == Invariant::Status::not_run) merged.status = "not_run";
    record.invariants.push_back(merged);
  }
}

/// Over the whole vocabulary the gradient of a row adds up to zero.
void merge_row_sums(const TrialSetup& setup, const std::vector<RankResult>& ranks,
                    TrialRecord& record) {
  const Grid& grid = setup.grid;
  for (int cp_rank = 0; cp_rank < grid.cp; ++cp_rank) {
    const std::size_t rows = ranks[grid.rank_of(0, cp_rank)].gradient.row_sums.size();
    for (std::size_t k = 0; k < rows; ++k) {
      double sum = 0;
      double bound = 0;
      for (int tp_rank = 0; tp_rank < grid.tp; ++tp_rank) {
        const GradientFindings& found = ranks[grid.rank_of(tp_rank, cp_rank)].gradient;
        sum += found.row_sums[k];
        bound += found.row_sum_bounds[k];
      }
      if (std::abs(sum) <= bound) continue;
      add_invariant(
          record, "gradient_rows_sum_to_zero", false,
          fmt::format("cp rank {}, row {}: sum {:.3g}, bound {:.3g}", cp_rank, k, sum, bound));
      return;
    }
  }
  add_invariant(record, "gradient_rows_sum_to_zero", true, "");
}

void merge_shared_values(const TrialSetup& setup, const std::vector<RankResult>& ranks,
                         TrialRecord& record) {
  const bool whole_pack = setup.implementation->describe().logprobs == LogprobScope::pack;
  std::string detail;
  for (std::size_t r = 1; r < ranks.size() && detail.empty(); ++r) {
    if (ranks[r].result_bits != ranks[0].result_bits) {
      detail = fmt::format("rank {} returned another loss or metric than rank 0 ({:.17g}, {:.17g})",
                           r, ranks[r].result.loss, ranks[0].result.loss);
    }
    const int same =
        whole_pack ? 0 : setup.grid.rank_of(0, setup.grid.cp_rank(static_cast<int>(r)));
    if (detail.empty() && ranks[r].logprob_bits != ranks[same].logprob_bits) {
      detail = fmt::format("rank {} holds other log-probabilities than rank {}", r, same);
    }
  }
  add_invariant(record, "same_bits_on_all_ranks", detail.empty(), detail);

  std::int64_t owned = 0;
  for (const RankResult& rank : ranks) owned += rank.owned_labels;
  add_invariant(record, "owned_labels_sum_to_valid_tokens", owned == record.valid_tokens,
                fmt::format("ranks own {} labels, the batch has {} valid tokens", owned,
                            record.valid_tokens));
}

void merge_determinism(const TrialSetup& setup, const std::vector<RankResult>& ranks,
                       TrialRecord& record) {
  const Description description = setup.implementation->describe();
  const bool same = std::all_of(ranks.begin(), ranks.end(),
                                [](const RankResult& rank) { return rank.same_bits_again; });
  record.determinism.push_back(
      {"run_to_run", same ? "same_bits" : "different_bits", description.claims_run_to_run, ""});
  // Judged by the run, which has seen the other grids of the case.
  record.determinism.push_back({"packing", "not_compared", description.claims_packing, ""});
  record.determinism.push_back({"tp_size", "not_compared", false, ""});

  std::uint64_t logprobs = 0;
  std::uint64_t gradient = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (setup.grid.tp_rank(static_cast<int>(r)) == 0) logprobs += ranks[r].own_logprob_bits;
    gradient += ranks[r].gradient_bits;
  }
  record.fingerprints["loss"] = fmt::format("{:016x}", ranks[0].result_bits);
  record.fingerprints["logprobs"] = fmt::format("{:016x}", logprobs);
  record.fingerprints["grad_logits"] = fmt::format("{:016x}", gradient);
}

/// Beyond 5 % of what was predicted, a memory model is wrong.
constexpr double kMemoryTolerance = 0.05;

std::string merge_memory(const std::vector<RankResult>& ranks, TrialRecord& record) {
  std::string mismatch;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::int64_t predicted_workspaces[] = {ranks[r].predicted.plan.workspace_bytes,
                                                 ranks[r].predicted.forward.workspace_bytes,
                                                 ranks[r].predicted.backward.workspace_bytes};
    for (std::size_t p = 0; p < phases().size(); ++p) {
      const PhaseMemory& measured = ranks[r].memory[p];
      const std::int64_t outputs = ranks[r].output_bytes.at(phases()[p]);
      PhaseMemoryRecord row;
      row.rank = static_cast<std::int64_t>(r);
      row.phase = phases()[p];
      row.predicted_peak_bytes = predicted_workspaces[p] + outputs;
      row.measured_peak_bytes = measured.peak_bytes - ranks[r].input_bytes;
      row.measured_peak_with_inputs_bytes = measured.peak_bytes;
      row.by_tag_bytes = measured.by_tag_bytes;
      record.memory.push_back(row);
      // Outputs are the harness's own: the prediction is judged by the workspace alone.
      const double predicted = static_cast<double>(predicted_workspaces[p]);
      const double workspace = static_cast<double>(row.measured_peak_bytes - outputs);
      if (mismatch.empty() && std::abs(workspace - predicted) > kMemoryTolerance * predicted) {
        mismatch =
            fmt::format("memory: rank {} {} needed {:.0f} bytes of workspace, predicted {:.0f}", r,
                        phases()[p], workspace, predicted);
      }
    }
  }
  return mismatch;
}

std::string merge_communication(const std::vector<RankResult>& ranks, TrialRecord& record) {
  std::string mismatch;
  const auto compare = [&](const std::string& phase, const std::string& group,
                           const CollectiveCounts RankCounts::*measured_group,
                           const auto& predicted_of) {
    for (int c = 0; c < kCollectives; ++c) {
      const auto operation = static_cast<Collective>(c);
      std::size_t shown = 0;  // rank 0, or the first one that differs
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        if (predicted_of(ranks[r])[operation] !=
            (ranks[r].counts.at(phase).*measured_group)[operation]) {
          shown = r;
          break;
        }
      }
      const CollectiveCount predicted = predicted_of(ranks[shown])[operation];
      const CollectiveCount measured = (ranks[shown].counts.at(phase).*measured_group)[operation];
      if (predicted == CollectiveCount{} && measured == CollectiveCount{}) continue;
      record.communication.push_back({static_cast<std::int64_t>(shown), phase, group,
                                      std::string(name(operation)), predicted.calls, measured.calls,
                                      predicted.payload_bytes, measured.payload_bytes});
      if (mismatch.empty() && !(predicted == measured)) {
        mismatch = fmt::format(
            "communication: rank {} {} {} {}: {} calls and {} bytes, predicted {} and {}", shown,
            phase, group, name(operation), measured.calls, measured.payload_bytes, predicted.calls,
            predicted.payload_bytes);
      }
    }
  };
  const auto phase_cost = [](const RankResult& rank, const std::string& phase) -> const PhaseCost& {
    if (phase == "plan") return rank.predicted.plan;
    return phase == "forward" ? rank.predicted.forward : rank.predicted.backward;
  };
  for (const std::string& phase : phases()) {
    compare(phase, "tp", &RankCounts::tp, [&](const RankResult& rank) -> const CollectiveCounts& {
      return phase_cost(rank, phase).tp;
    });
    compare(phase, "cp", &RankCounts::cp, [&](const RankResult& rank) -> const CollectiveCounts& {
      return phase_cost(rank, phase).cp;
    });
  }
  return mismatch;
}

}  // namespace

void add_checks(const std::vector<Check>& checks, TrialRecord& record) {
  for (const Check& check : checks) {
    record.checks.push_back(to_record(check));
    if (check.passed()) continue;
    record.status = TrialStatus::failed;
    if (!record.reason.empty()) record.reason += "; ";
    record.reason += describe_worst(record.checks.back());
  }
}

void merge_ranks(const TrialSetup& setup, std::vector<RankResult>& ranks, TrialRecord& record) {
  record.metrics = ranks[0].result.metrics;
  merge_checks(ranks, record);
  merge_rank_invariants(ranks, record);
  merge_row_sums(setup, ranks, record);
  merge_shared_values(setup, ranks, record);
  merge_determinism(setup, ranks, record);
  const std::string memory = merge_memory(ranks, record);
  const std::string communication = merge_communication(ranks, record);
  for (const std::string& phase : phases()) {
    std::int64_t slowest = 0;
    for (const RankResult& rank : ranks) slowest = std::max(slowest, rank.time_ns.at(phase));
    record.times.push_back({phase, slowest});
  }

  std::vector<std::string> reasons;
  for (const CheckRecord& check : record.checks) {
    if (!check.passed) reasons.push_back(describe_worst(check));
  }
  for (const InvariantRecord& invariant : record.invariants) {
    if (invariant.status == "failed") reasons.push_back(invariant.name + ": " + invariant.detail);
  }
  for (const DeterminismRecord& verdict : record.determinism) {
    if (verdict.claimed && verdict.verdict == "different_bits") {
      reasons.push_back(fmt::format("determinism: {} gave different bits", verdict.name));
    }
  }
  if (!memory.empty()) {
    reasons.push_back(memory);
    record.cost_mismatches.push_back("memory");
  }
  if (!communication.empty()) {
    reasons.push_back(communication);
    record.cost_mismatches.push_back("communication");
  }
  record.status = reasons.empty() ? TrialStatus::passed : TrialStatus::failed;
  record.reason = join(reasons, "; ");
}

}  // namespace lossgrid
