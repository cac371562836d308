// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/verdict/failure_facts.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/loss/declared_conventions.h"
#include "harness/loss/framework_scale.h"
#include "harness/runner/verdict/replica_merge.h"

namespace lossgrid {
namespace {

PartPlace place_of(const Grid& grid, std::size_t rank, std::size_t microbatch) {
  const auto r = static_cast<int>(rank);
  return {grid.tp_rank(r), grid.cp_rank(r), grid.dp_rank(r), static_cast<int>(microbatch)};
}

bool has_failed(const TrialRecord& record, const std::string& gradient) {
  return std::any_of(record.checks.begin(), record.checks.end(), [&](const CheckRecord& check) {
    return !check.passed && (check.name == gradient || check.name.starts_with(gradient + '_'));
  });
}

std::optional<LossFacts> failed_loss(const TrialRecord& record) {
  for (const CheckRecord& check : record.checks) {
    if (check.name != "loss" || check.passed || !check.worst) continue;
    return LossFacts{check.worst->got, check.worst->want};
  }
  return std::nullopt;
}

std::vector<std::int64_t> minus_inf_rows(const Problem& problem, const Truth& truth) {
  std::vector<std::int64_t> rows;
  std::vector<double> logits(static_cast<std::size_t>(problem.spec.vocab));
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    if (!truth.rows[t].valid) continue;
    problem.logits->read(t, 0, std::span<double>(logits));
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (std::find(logits.begin(), logits.end(), -kInfinity) != logits.end()) rows.push_back(t);
  }
  return rows;
}

bool has_minus_inf_padding(const TrialSetup& setup) {
  const auto* author = dynamic_cast<const DeclaresConventions*>(setup.implementation.get());
  return author != nullptr && author->conventions().pads_with_minus_inf &&
         setup.problem->spec.vocab % setup.grid.tp != 0;
}

/// Collects the parts of the gradients, as far as they exist.
class GradientCollector {
 public:
  explicit GradientCollector(const TrialSetup& setup) : setup_(setup), grid_(setup.grid) {}

  void add_rank(std::size_t rank, const RankResult& result) {
    for (std::size_t m = 0; m < result.packs.size(); ++m) {
      const PartPlace place = place_of(setup_.microbatches[m].grid, rank, m);
      if (const auto& found = result.packs[m].grad_logits) {
        GradientPart part{place, found->bias, found->failed, found->trained_rows};
        add(logits_, rank, std::move(part), found->not_written);
      }
      if (const auto& found = result.packs[m].grad_hidden) {
        add(hidden_, rank, {place, found->bias, found->failed}, found->not_written);
      }
    }
    if (const auto& found = result.grad_weight) {
      add(weight_, rank, {place_of(grid_, rank, 0), found->bias, found->failed},
          found->not_written);
    }
    if (const auto& found = result.grad_bias) {
      add(bias_, rank, {place_of(grid_, rank, 0), found->bias, found->failed}, found->not_written);
    }
  }

  std::vector<GradientFacts> take(const TrialRecord& record) {
    std::vector<GradientFacts> gradients;
    for (GradientFacts* facts : {&logits_, &hidden_, &weight_, &bias_}) {
      facts->failed = has_failed(record, facts->name);
      facts->bias_failed = has_failed(record, facts->name + "_bias");
      if (!facts->parts.empty()) gradients.push_back(std::move(*facts));
    }
    return gradients;
  }

 private:
  void add(GradientFacts& facts, std::size_t rank, GradientPart part, std::int64_t not_written) {
    if (is_counted(grid_, rank, facts.name)) facts.sums.add(part.sums);
    facts.not_written = facts.not_written || not_written > 0;
    facts.parts.push_back(std::move(part));
  }

  const TrialSetup& setup_;
  Grid grid_;
  GradientFacts logits_{.name = "grad_logits"};
  GradientFacts hidden_{.name = "grad_hidden"};
  GradientFacts weight_{.name = "grad_weight"};
  GradientFacts bias_{.name = "grad_bias"};
};

/// Returns the sequences of the batch by the packs that train steps get, with their part of the
/// loss.
std::vector<SequenceLoss> losses_of_sequences(const TrialSetup& setup) {
  const std::vector<double> losses = sequence_losses(*setup.problem, *setup.truth);
  std::vector<SequenceLoss> out;
  if (losses.empty()) return out;
  for (const TrialMicrobatch& microbatch : setup.microbatches) {
    for (const TrialPart& part : microbatch.parts) {
      const Problem& problem = *part.problem;
      const auto size = static_cast<int>(problem.sequences());
      for (int i = 0; i < size; ++i) {
        if (problem.cu_seqlens[i] == problem.cu_seqlens[i + 1]) continue;
        const std::int64_t row = problem.whole_row(problem.cu_seqlens[i]);
        const auto sequence = static_cast<int>(setup.problem->sequence_of(row));
        out.push_back({sequence, i, size, losses[static_cast<std::size_t>(sequence)]});
      }
    }
  }
  return out;
}

/// Adds the sums of a rank over its shard.
template <typename Parts>
void add_shard(const std::optional<Parts>& shard, std::optional<Parts>& all) {
  if (!shard) return;
  if (all) {
    all->add(*shard);
  } else {
    all = shard;
  }
}

}  // namespace

std::vector<PartPlace> untrained_places(const TrialSetup& setup) {
  std::vector<PartPlace> places;
  for (std::size_t m = 0; m < setup.microbatches.size(); ++m) {
    const TrialMicrobatch& microbatch = setup.microbatches[m];
    for (int dp = 0; dp < microbatch.grid.dp; ++dp) {
      const Problem& part = *microbatch.parts[static_cast<std::size_t>(dp)].problem;
      const auto by_rank = token_counts(pack(part, microbatch.grid), microbatch.grid.cp);
      for (int cp = 0; cp < microbatch.grid.cp; ++cp) {
        if (by_rank[static_cast<std::size_t>(cp)].rank > 0) continue;
        places.push_back({0, cp, dp, static_cast<int>(m)});
      }
    }
  }
  return places;
}

void add_counts(const Problem& problem, TrialSizes& sizes) {
  for (const std::int32_t target : problem.row_targets()) sizes.predicting_rows += target >= 0;
  for (std::int64_t i = 0; i < problem.sequences(); ++i) {
    sizes.longest = std::max(sizes.longest, problem.lengths[i]);
    if (problem.sample_mask[i] == 0) continue;
    for (std::int64_t t = problem.cu_seqlens[i]; t < problem.cu_seqlens[i + 1]; ++t) {
      sizes.mask_tokens += problem.token_mask[t] != 0;
    }
  }
}

DeclaredWords declared_words(const LossImplementation& implementation) {
  DeclaredWords words;
  words.is_external = implementation.describe().is_external;
  if (const auto* author = dynamic_cast<const DeclaresConventions*>(&implementation)) {
    const DeclaredConventions declared = author->conventions();
    words.returns_loss = declared.returns_loss;
    words.scale = declared.scale;
    words.may_sum_over_cp = declared.weight_gradient == WeightGradientParts::summands &&
                            !declared.gradient_summed_over_cp;
  }
  return words;
}

bool is_counted(const Grid& grid, std::size_t rank, const std::string& gradient) {
  return gradient != "grad_hidden" || grid.sp || grid.tp_rank(static_cast<int>(rank)) == 0;
}

FailureFacts failure_facts(const TrialSetup& setup, const std::vector<RankResult>& ranks,
                           const TrialRecord& record) {
  const Problem& problem = *setup.problem;
  FailureFacts facts;
  facts.sizes = {scale_sizes(problem, setup.grid),
                 setup.grid.tp,
                 record.valid_tokens,
                 problem.sequences(),
                 problem.spec.temperature,
                 problem.tokens(),
                 record.padded_tokens,
                 problem.spec.logit_scale};
  add_counts(problem, facts.sizes);
  facts.loss = failed_loss(record);
  GradientCollector gradients(setup);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    gradients.add_rank(r, ranks[r]);
    for (std::size_t m = 0; m < ranks[r].packs.size(); ++m) {
      const PartPlace place = place_of(setup.microbatches[m].grid, r, m);
      facts.logprobs.push_back({place, ranks[r].packs[m].failed_logprobs});
      facts.entropies.push_back({place, ranks[r].packs[m].failed_entropies});
    }
  }
  facts.gradients = gradients.take(record);
  facts.replicas = replica_facts(setup, ranks, record);
  if (facts.loss && !facts.replicas.empty()) facts.losses = losses_of_sequences(setup);
  for (const RankResult& rank : ranks) {
    add_shard(rank.sequences, facts.sequences);
    add_shard(rank.slices, facts.slices);
  }
  // The mean over ranks that differ, which was compared with the truth, has no scale of its own.
  for (const ReplicaFacts& replica : facts.replicas) {
    if (!replica.differ) continue;
    leave_out(replica.name, facts);
    if (replica.name != "grad_weight") continue;
    facts.sequences.reset();
    facts.slices.reset();
  }
  if (has_nan(facts)) {
    if (!problem.projection) facts.minus_inf_rows = minus_inf_rows(problem, *setup.truth);
    facts.untrained = untrained_places(setup);
    facts.has_minus_inf_padding = has_minus_inf_padding(setup);
  }
  return facts;
}

}  // namespace lossgrid
