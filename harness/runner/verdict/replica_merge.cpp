// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/verdict/replica_merge.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "harness/loss/framework_scale.h"

namespace lossgrid {
namespace {

const RegisteredInvariant kSameGradientOnReplicas{
    {.name = "same_gradient_on_replicas",
     .condition = "train step (engine): ranks that hold an element of the gradient hold the same "
                  "bits of the element",
     .place = 13}};
const RegisteredInvariant kSameLossOnReplicas{
    {.name = "same_loss_on_replicas",
     .condition = "train step (engine): all ranks report the same loss, and ranks that report a "
                  "metric the same one",
     .place = 14}};
const RegisteredInvariant kGradientSlicesCover{
    {.name = "gradient_slices_cover",
     .condition = "train step that leaves slices: every element is held, each by the same number "
                  "of ranks, and not by all ranks",
     .place = 15}};

/// Returns the losses that a rank reported, all packs together, without the part of a dp rank that
/// the harness takes of each.
double reported_loss(const TrialSetup& setup, const RankResult& rank) {
  double loss = 0;
  for (std::size_t m = 0; m < rank.packs.size(); ++m) {
    loss += rank.packs[m].result.loss * setup.microbatches[m].grid.dp;
  }
  return loss;
}

/// Compares a number that ranks report with that of the first rank that reports it.
class ReportedNumber {
 public:
  void add(const std::string& name, std::size_t rank, double value) {
    const auto [first, is_new] = first_.try_emplace(name, rank, value);
    const auto& [other, want] = first->second;
    const bool same = std::bit_cast<std::uint64_t>(value) == std::bit_cast<std::uint64_t>(want);
    if (is_new || same || !difference_.empty()) return;
    difference_ =
        fmt::format("rank {} reports {} {:.9g}, rank {} {:.9g}", rank, name, value, other, want);
  }
  const std::string& difference() const { return difference_; }

 private:
  std::map<std::string, std::pair<std::size_t, double>> first_;
  std::string difference_;
};

std::string difference_of_reports(const TrialSetup& setup, const std::vector<RankResult>& ranks) {
  ReportedNumber numbers;
  const auto first = static_cast<std::size_t>(setup.grid.first_of_last_stage());
  for (std::size_t r = first; r < ranks.size(); ++r) {
    for (std::size_t m = 0; m < ranks[r].packs.size(); ++m) {
      const PackFindings& pack = ranks[r].packs[m];
      const std::string where = ranks[r].packs.size() > 1 ? fmt::format(" (microbatch {})", m) : "";
      numbers.add("loss" + where, r, pack.result.loss * setup.microbatches[m].grid.dp);
      for (const auto& [name, value] : pack.step.metrics) {
        numbers.add(fmt::format("metric '{}'{}", name, where), r, value);
      }
    }
  }
  return numbers.difference();
}

std::optional<ReplicaFindings> merged_gradient(const std::vector<RankResult>& ranks) {
  std::optional<ReplicaFindings> merged;
  for (const RankResult& rank : ranks) {
    if (!rank.replicas) continue;
    if (merged) {
      merged->add(*rank.replicas);
    } else {
      merged = rank.replicas;
    }
  }
  return merged;
}

void add_replica_invariant(TrialRecord& record, const InvariantEntry& invariant,
                           const std::string& detail) {
  record.invariants.push_back({invariant.name, detail.empty() ? "passed" : "failed", detail});
}

std::string misfit_of_slices(const ReplicaFindings& found) {
  if (found.without > 0) {
    return fmt::format("{} elements are held by no rank, first: {}", found.without,
                       found.first_misplaced);
  }
  if (found.uneven > 0) {
    return fmt::format(
        "slices overlap or have gaps: {} elements are held by another number of "
        "ranks than the first one, which {} hold; first: {}",
        found.uneven, found.holders, found.first_misplaced);
  }
  const auto ranks = static_cast<std::int64_t>(found.ranks());
  if (found.holders == ranks && ranks > 1) {
    return fmt::format(
        "each of the {} ranks holds the whole gradient: no slices; "
        "gradients=\"replicated\" would declare it",
        ranks);
  }
  return "";
}

/// Returns the part of the valid tokens of the batch that each rank over DP and CP has.
std::vector<double> token_shares(const TrialSetup& setup) {
  if (setup.grid.is_dynamic()) return {};
  std::vector<double> shares(static_cast<std::size_t>(setup.grid.line()), 0.0);
  double all = 0;
  for (const TrialMicrobatch& microbatch : setup.microbatches) {
    for (std::size_t d = 0; d < microbatch.parts.size(); ++d) {
      const PackedBatch batch = pack(*microbatch.parts[d].problem, microbatch.grid);
      const std::vector<TokenCounts> counts = token_counts(batch, microbatch.grid.cp);
      for (std::size_t c = 0; c < counts.size(); ++c) {
        shares[d * counts.size() + c] += static_cast<double>(counts[c].rank);
        all += static_cast<double>(counts[c].rank);
      }
    }
  }
  for (double& share : shares) share /= std::max(all, 1.0);
  return shares;
}

ReplicaFacts loss_facts(const TrialSetup& setup, const std::vector<RankResult>& ranks,
                        const TrialRecord& record) {
  ReplicaFacts facts{"loss", {}};
  const auto loss = std::find_if(record.checks.begin(), record.checks.end(),
                                 [](const CheckRecord& check) { return check.name == "loss"; });
  if (loss == record.checks.end() || !loss->worst) return facts;
  facts.failed = !loss->passed;
  std::vector<double> values;
  const Grid& grid = setup.grid;
  for (int d = 0; d < grid.dp; ++d) {
    for (int c = 0; c < grid.cp; ++c) {
      const int rank = grid.rank_of(0, c, d, grid.pp - 1);
      values.push_back(reported_loss(setup, ranks[static_cast<std::size_t>(rank)]));
    }
  }
  facts.differ = std::any_of(values.begin(), values.end(),
                             [&](double loss) { return loss != values.front(); });
  facts.products = ReplicaProducts::of_numbers(grid.dp, grid.cp, values, loss->worst->want);
  return facts;
}

}  // namespace

void merge_replicas(const TrialSetup& setup, const std::vector<RankResult>& ranks,
                    TrialRecord& record) {
  if (weight_gradient_parts(setup) == WeightGradientParts::summands) return;
  add_replica_invariant(record, kSameLossOnReplicas, difference_of_reports(setup, ranks));
  const std::optional<ReplicaFindings> gradient = merged_gradient(ranks);
  if (!gradient) return;
  add_replica_invariant(
      record, kSameGradientOnReplicas,
      gradient->different == 0
          ? ""
          : fmt::format("ranks hold other bits of {} elements of the weight's gradient, first: {}",
                        gradient->different, gradient->first_different));
  if (weight_gradient_parts(setup) == WeightGradientParts::slices) {
    add_replica_invariant(record, kGradientSlicesCover, misfit_of_slices(*gradient));
  }
}

std::vector<ReplicaFacts> replica_facts(const TrialSetup& setup,
                                        const std::vector<RankResult>& ranks,
                                        const TrialRecord& record) {
  if (weight_gradient_parts(setup) == WeightGradientParts::summands) return {};
  std::vector<ReplicaFacts> facts{loss_facts(setup, ranks, record)};
  const std::optional<ReplicaFindings> gradient = merged_gradient(ranks);
  if (gradient) {
    ReplicaFacts of_gradient{"grad_weight", {gradient->dp, gradient->cp, gradient->products}};
    const bool in_slices = weight_gradient_parts(setup) == WeightGradientParts::slices;
    of_gradient.holders = in_slices ? gradient->holders : 0;
    of_gradient.differ = gradient->different > 0;
    of_gradient.failed =
        std::any_of(record.checks.begin(), record.checks.end(), [](const CheckRecord& check) {
          return !check.passed && check.name.starts_with("grad_weight");
        });
    facts.push_back(std::move(of_gradient));
  }
  const std::vector<double> shares = token_shares(setup);
  for (ReplicaFacts& one : facts) one.token_shares = shares;
  return facts;
}

}  // namespace lossgrid
