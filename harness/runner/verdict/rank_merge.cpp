// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/verdict/rank_merge.h"

#include <algorithm>
#include <cmath>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/runner/verdict/cost_merge.h"
#include "harness/runner/verdict/failure_facts.h"
#include "harness/runner/verdict/replica_merge.h"
#include "harness/runner/verdict/scale_identity.h"

namespace lossgrid {
namespace {

const RegisteredInvariant kGradientRowsSumToZero{
    {.name = "gradient_rows_sum_to_zero",
     .condition = "softmax gradients of a row add up to 0",
     .place = 9}};
const RegisteredInvariant kSameBitsOnAllRanks{
    {.name = "same_bits_on_all_ranks",
     .condition = "all ranks return the same loss and metrics, and those of the same rows the same "
                  "numbers by token, bit by bit",
     .place = 11}};
const RegisteredInvariant kOwnedLabelsSumToValidTokens{
    {.name = "owned_labels_sum_to_valid_tokens",
     .condition = "each valid target is owned by exactly one TP rank",
     .place = 12}};

/// Sums over all elements of a gradient that are compared, in float64.
struct SquaredErrors {
  double error = 0;
  double want = 0;
};

void merge_checks(const TrialSetup& setup, const std::vector<RankResult>& ranks,
                  TrialRecord& record) {
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
  std::map<std::string, BiasSums> bias;
  std::map<std::string, SquaredErrors> squares;
  const auto add_linear = [&](const std::string& gradient, const LinearFindings& found,
                              bool counted) {
    add(found.elements);
    add(found.l2);
    if (!counted) return;
    bias[gradient].add(found.bias);
    squares[gradient].error += found.error_squared;
    squares[gradient].want += found.want_squared;
  };
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (const Check& check : ranks[r].checks) add(check);
    for (const PackFindings& pack : ranks[r].packs) {
      for (const Check& check : pack.checks) add(check);
      if (pack.grad_logits) {
        add(pack.grad_logits->elements);
        bias["grad_logits"].add(pack.grad_logits->bias);
      }
      if (pack.grad_hidden) {
        add_linear("grad_hidden", *pack.grad_hidden, is_counted(setup.grid, r, "grad_hidden"));
      }
    }
    if (ranks[r].grad_weight) add_linear("grad_weight", *ranks[r].grad_weight, true);
    if (ranks[r].grad_bias) add_linear("grad_bias", *ranks[r].grad_bias, true);
  }
  for (const auto& [gradient, sums] : bias) {
    merged.push_back(check_bias(sums, gradient + "_bias"));
    if (const auto scale = sums.scale()) record.gradient_scale[gradient] = *scale;
  }
  for (const Check& check : merged) record.checks.push_back(to_record(check));
  for (const auto& [gradient, sums] : squares) {
    if (sums.want > 0) record.relative_l2[gradient] = std::sqrt(sums.error / sums.want);
  }
}

void add_invariant(TrialRecord& record, const InvariantEntry& invariant, bool holds,
                   const std::string& detail) {
  record.invariants.push_back({invariant.name, holds ? "passed" : "failed", holds ? "" : detail});
}

/// Adds the first failure of every invariant of a rank, in the order in which packs have them.
void merge_rank_invariants(const Grid& grid, const std::vector<RankResult>& ranks,
                           TrialRecord& record) {
  std::vector<Invariant> merged;
  const auto add = [&](const RankResult& rank) {
    for (const PackFindings& pack : rank.packs) {
      for (const Invariant& found : pack.invariants) {
        const auto same = std::find_if(merged.begin(), merged.end(), [&](const Invariant& other) {
          return other.name == found.name;
        });
        if (same == merged.end()) {
          merged.push_back(found);
        } else if (found.status == Invariant::Status::failed && same->status != found.status) {
          *same = found;
        }
      }
    }
  };
  for (std::size_t r = grid.first_of_last_stage(); r < ranks.size(); ++r) add(ranks[r]);
  for (const Invariant& invariant : merged) {
    InvariantRecord one{invariant.name, "passed", invariant.detail};
    if (invariant.status == Invariant::Status::failed) one.status = "failed";
    if (invariant.status == Invariant::Status::not_run) one.status = "not_run";
    record.invariants.push_back(one);
  }
}

/// Describes the first row of logits whose gradient does not add up to zero over the whole
/// vocabulary; empty when there is none.
std::string row_that_does_not_add_up(const TrialSetup& setup,
                                     const std::vector<RankResult>& ranks) {
  const Grid& grid = setup.grid;
  for (int r = 0; r < grid.ranks(); ++r) {
    if (grid.tp_rank(r) != 0) continue;
    for (std::size_t m = 0; m < ranks[r].packs.size(); ++m) {
      for (std::size_t k = 0; k < ranks[r].packs[m].grad_logits->row_sums.size(); ++k) {
        double sum = 0;
        double bound = 0;
        for (int tp_rank = 0; tp_rank < grid.tp; ++tp_rank) {
          const GradientFindings& found = *ranks[r + tp_rank].packs[m].grad_logits;
          sum += found.row_sums[k];
          bound += found.row_sum_bounds[k];
        }
        if (std::abs(sum) <= bound) continue;
        return fmt::format("ranks from {} on, microbatch {}, row {}: sum {:.3g}, bound {:.3g}", r,
                           m, k, sum, bound);
      }
    }
  }
  return "";
}

void merge_row_sums(const TrialSetup& setup, const std::vector<RankResult>& ranks,
                    TrialRecord& record) {
  if (setup.problem->spec.hidden > 0) {
    record.invariants.push_back(
        {kGradientRowsSumToZero.name, "not_run", "starts from hidden states"});
    return;
  }
  if (!setup.implementation->describe().outputs.gradients) {
    record.invariants.push_back(
        {kGradientRowsSumToZero.name, "not_run", "the implementation returns no gradient"});
    return;
  }
  const std::string row = row_that_does_not_add_up(setup, ranks);
  add_invariant(record, kGradientRowsSumToZero, row.empty(), row);
}

/// Returns the first rank of the group that works on the same rows: all of it must hold the same
/// bits by token.
int first_with_same_rows(const Grid& grid, int rank, bool whole_pack) {
  return grid.rank_of(0, whole_pack ? 0 : grid.cp_rank(rank), grid.dp_rank(rank),
                      grid.pp_rank(rank));
}

/// True if d hidden is that of the first TP rank: without sequence parallelism every TP rank
/// returns it for all rows, summed over TP.
bool same_hidden_gradient(const Grid& grid, const std::vector<RankResult>& ranks, std::size_t rank,
                          std::size_t pack) {
  const auto r = static_cast<int>(rank);
  const int first = grid.rank_of(0, grid.cp_rank(r), grid.dp_rank(r), grid.pp_rank(r));
  const auto& bits = ranks[rank].packs[pack].gradient_bits;
  return grid.sp || !bits.contains("grad_hidden") ||
         bits.at("grad_hidden") == ranks[first].packs[pack].gradient_bits.at("grad_hidden");
}

/// True if d weight is that of the first TP rank, where all TP ranks have the same weight.
bool same_weight_gradient(const TrialSetup& setup, const std::vector<RankResult>& ranks,
                          std::size_t rank, std::size_t pack) {
  const auto r = static_cast<int>(rank);
  const Grid& grid = setup.grid;
  const auto& bits = ranks[rank].packs[pack].gradient_bits;
  if (!has_vocab_copy(setup.problem->spec.vocab, grid.tp_rank(r)) || !bits.contains("grad_weight"))
    return true;
  const int first = grid.rank_of(0, grid.cp_rank(r), grid.dp_rank(r), grid.pp_rank(r));
  return bits.at("grad_weight") == ranks[first].packs[pack].gradient_bits.at("grad_weight");
}

void merge_shared_values(const TrialSetup& setup, const std::vector<RankResult>& ranks,
                         TrialRecord& record) {
  const bool whole_pack = setup.implementation->describe().logprobs == LogprobScope::pack;
  std::string detail;
  std::int64_t owned = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (detail.empty() && ranks[r].result_bits != ranks[0].result_bits) {
      detail = fmt::format("rank {} returned another loss or metric than rank 0 ({:.17g}, {:.17g})",
                           r, ranks[r].result.loss, ranks[0].result.loss);
    }
    for (std::size_t m = 0; m < ranks[r].packs.size(); ++m) {
      const Grid& grid = setup.microbatches[m].grid;
      const int same = first_with_same_rows(grid, static_cast<int>(r), whole_pack);
      const PackFindings& pack = ranks[r].packs[m];
      const bool is_copy =
          has_vocab_copy(setup.problem->spec.vocab, grid.tp_rank(static_cast<int>(r)));
      owned += is_copy ? 0 : pack.owned_labels;
      if (detail.empty() && pack.output_bits != ranks[same].packs[m].output_bits) {
        detail = fmt::format("rank {} holds other outputs by token than rank {} (microbatch {})", r,
                             same, m);
      }
      if (detail.empty() && !same_hidden_gradient(setup.grid, ranks, r, m)) {
        detail = fmt::format(
            "rank {} holds another d hidden than its first TP rank (microbatch {})", r, m);
      }
      if (detail.empty() && !same_weight_gradient(setup, ranks, r, m)) {
        detail = fmt::format(
            "rank {} holds another d weight than its first TP rank (microbatch {})", r, m);
      }
    }
  }
  add_invariant(record, kSameBitsOnAllRanks, detail.empty(), detail);
  if (setup.implementation->describe().outputs.owned_labels) {
    add_invariant(record, kOwnedLabelsSumToValidTokens, owned == record.valid_tokens,
                  fmt::format("ranks own {} labels, the batch has {} valid tokens", owned,
                              record.valid_tokens));
  } else {
    record.invariants.push_back(
        {kOwnedLabelsSumToValidTokens.name, "not_run", "the implementation does not count them"});
  }
}

bool took_memory_from_heap(const TrialRecord& record) {
  return std::any_of(record.invariants.begin(), record.invariants.end(), [](const auto& invariant) {
    return invariant.name == kMemoryFromDevice && invariant.status == "failed";
  });
}

void merge_determinism(const TrialSetup& setup, const std::vector<RankResult>& ranks,
                       TrialRecord& record) {
  const ImplementationTraits description = setup.implementation->describe();
  bool same = true;
  std::uint64_t logprobs = 0;
  std::map<std::string, std::uint64_t> gradients;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (const PackFindings& pack : ranks[r].packs) {
      same = same && pack.same_bits_again;
      if (setup.grid.tp_rank(static_cast<int>(r)) == 0) logprobs += pack.own_logprob_bits;
      for (const auto& [gradient, bits] : pack.gradient_bits) {
        if (is_counted(setup.grid, r, gradient)) gradients[gradient] += bits;
      }
    }
  }
  const bool ordered = adds_in_rank_order(setup);
  // Products of a teacher's rows may add up in another order where there are more or fewer rows.
  const bool multiplies_teacher = setup.problem->spec.teacher_hidden > 0;
  const bool claims_packing =
      ordered && description.claims_packing && !multiplies_teacher &&
      (setup.objective->sizes().coefficients == 0 || description.claims_packing_of_sequence_sums);
  const std::string verdict = description.plays_back ? "not_compared"
                              : same                 ? "same_bits"
                                                     : "different_bits";
  record.determinism.push_back(
      {"run_to_run", verdict, ordered && description.claims_run_to_run, ""});
  // BitComparison fills these two: it knows the other grids of the case.
  const bool depends_on_packs = setup.objective->needs().packs_are_groups;
  record.determinism.push_back({"packing", "not_compared", claims_packing && !depends_on_packs,
                                depends_on_packs ? "the loss depends on the packs" : ""});
  record.determinism.push_back({"tp_size", "not_compared", false, ""});

  if (description.plays_back) return;  // its bits are those of the file
  record.fingerprints["loss"] = fmt::format("{:016x}", ranks[0].result_bits);
  if (description.outputs.logprobs) {
    record.fingerprints["logprobs"] = fmt::format("{:016x}", logprobs);
  }
  for (const auto& [gradient, bits] : gradients) {
    record.fingerprints[gradient] = fmt::format("{:016x}", bits);
  }
}

}  // namespace

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

TrialFacts merge_outputs(const TrialSetup& setup, const std::vector<RankResult>& ranks,
                         TrialRecord& record) {
  merge_checks(setup, ranks, record);
  merge_rank_invariants(setup.grid, ranks, record);
  merge_row_sums(setup, ranks, record);
  merge_shared_values(setup, ranks, record);
  merge_replicas(setup, ranks, record);
  add_scale_identity(setup, record);
  return {.compared = true, .checks = record.checks, .invariants = record.invariants};
}

TrialFacts merge_ranks(const TrialSetup& setup, const std::vector<RankResult>& ranks,
                       TrialRecord& record) {
  for (const auto& [name, metric] : ranks[0].result.metrics) {
    record.metrics[name] = metric.value();
    record.metric_reductions[name] = std::string(lossgrid::name(metric.reduction));
  }
  TrialFacts facts = merge_outputs(setup, ranks, record);
  merge_determinism(setup, ranks, record);
  facts.determinism = record.determinism;
  const auto add_cost = [&](ComparedCost cost, const std::string& mismatch) {
    if (mismatch.empty()) return;
    facts.cost_mismatches.push_back(mismatch);
    record.cost_mismatches.emplace_back(name(cost));
  };
  const std::string memory = merge_memory(ranks, record);
  add_cost(ComparedCost::memory, memory);
  // The invariant has the reason.
  if (memory.empty() && took_memory_from_heap(record)) {
    record.cost_mismatches.emplace_back(name(ComparedCost::memory));
  }
  add_cost(ComparedCost::communication, merge_communication(setup.grid, ranks, record));
  const CaseSpec& spec = setup.problem->spec;
  if (setup.implementation->describe().counts_flops) {
    add_cost(ComparedCost::flops, compare_flops(setup.grid, spec.vocab, ranks));
  }
  if (spec.hidden == 0) add_cost(ComparedCost::traffic, compare_traffic(ranks));
  merge_times(ranks, record);
  return facts;
}

}  // namespace lossgrid
