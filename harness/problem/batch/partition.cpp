// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/batch/partition.h"

#include <algorithm>
#include <utility>

#include "harness/core/error.h"
#include "harness/problem/batch/groups.h"
#include "harness/problem/batch/poison.h"
#include "harness/problem/values/random_streams.h"

namespace lossgrid {
namespace {

/// Logits of some rows of another source.
class PartLogits final : public LogitsSource {
 public:
  PartLogits(std::shared_ptr<const LogitsSource> whole, std::vector<std::int64_t> rows)
      : whole_(std::move(whole)), rows_(std::move(rows)) {}

  void read(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    whole_->read(row(token), begin, out);
  }
  void read(std::int64_t token, std::int64_t begin, std::span<float> out) const override {
    whole_->read(row(token), begin, out);
  }
  std::int64_t rows_at_once() const override { return whole_->rows_at_once(); }
  void read_rows(std::span<const std::int64_t> tokens, std::span<double> out) const override {
    std::vector<std::int64_t> rows;
    for (const std::int64_t token : tokens) rows.push_back(row(token));
    whole_->read_rows(rows, out);
  }
  bool given() const override { return whole_->given(); }
  double relative_error() const override { return whole_->relative_error(); }
  void read_errors(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    whole_->read_errors(row(token), begin, out);
  }

 private:
  std::int64_t row(std::int64_t token) const { return rows_[static_cast<std::size_t>(token)]; }

  std::shared_ptr<const LogitsSource> whole_;
  std::vector<std::int64_t> rows_;
};

/// Gathers elements of `from`; returns nothing where `from` is empty because nothing needs it.
template <typename T>
std::vector<T> picked(const std::vector<T>& from, const std::vector<std::int64_t>& indices) {
  std::vector<T> out;
  if (from.empty()) return out;
  out.reserve(indices.size());
  for (const std::int64_t index : indices) out.push_back(from[static_cast<std::size_t>(index)]);
  return out;
}

/// Masks a dummy and fills it with what masked slots hold: nothing of it may be read.
void blank_dummy(Problem& part) {
  std::fill(part.sample_mask.begin(), part.sample_mask.end(), std::uint8_t{0});
  if (!part.poison_true_rows) return;
  const auto poison = [&part](std::vector<float>& values) {
    for (float& value : values) value = poison_or(part.spec.poison, value);
  };
  for (std::vector<float>& input : part.inputs) poison(input);
  poison(part.rewards);
}

}  // namespace

std::vector<std::vector<MicrobatchPlan>> partition(const Problem& problem, int dp,
                                                   std::int64_t sequences_per_unit) {
  const std::int64_t microbatches = problem.spec.microbatches;
  if (dp < 1) throw_bad_input("dp = {} is not positive", dp);
  if (microbatches < 1) throw_bad_input("microbatches = {} is not positive", microbatches);
  std::vector<std::vector<MicrobatchPlan>> plans(
      static_cast<std::size_t>(dp),
      std::vector<MicrobatchPlan>(static_cast<std::size_t>(microbatches)));
  const RandomStream random = random_stream(problem.spec.seed, Stream::partition);
  const auto slots = static_cast<std::uint32_t>(dp * microbatches);
  for (std::int64_t i = 0; i < problem.sequences(); ++i) {
    const std::int64_t unit = i / sequences_per_unit;
    const std::int64_t slot = random.below(slots, static_cast<std::uint64_t>(unit));
    plans[slot / microbatches][slot % microbatches].sequences.push_back(i);
  }
  for (std::vector<MicrobatchPlan>& of_rank : plans) {
    for (std::size_t m = 0; m < of_rank.size(); ++m) of_rank[m].index = static_cast<int>(m);
    const auto filled = std::find_if(of_rank.begin(), of_rank.end(),
                                     [](const auto& plan) { return !plan.sequences.empty(); });
    if (filled == of_rank.end()) continue;
    const std::vector<std::int64_t> copied = filled->sequences;
    std::size_t slots = 0;
    for (MicrobatchPlan& plan : of_rank) {
      if (plan.sequences.empty()) {
        plan.sequences = copied;
        plan.dummy = true;
      }
      slots = std::max(slots, plan.sequences.size());
    }
    for (MicrobatchPlan& plan : of_rank) plan.slots = static_cast<std::int64_t>(slots);
  }
  return plans;
}

std::shared_ptr<const Problem> grouped_by_pack(
    const Problem& problem, const std::vector<std::vector<MicrobatchPlan>>& plans) {
  std::vector<std::int64_t> groups(static_cast<std::size_t>(problem.sequences()), 0);
  std::int64_t packs = 0;
  for (const std::vector<MicrobatchPlan>& of_rank : plans) {
    for (const MicrobatchPlan& plan : of_rank) {
      if (!plan.dummy) {
        for (const std::int64_t i : plan.sequences) groups[i] = packs;
      }
      ++packs;
    }
  }
  auto grouped = std::make_shared<Problem>(problem);
  set_groups(*grouped, std::move(groups), packs);
  return grouped;
}

Problem take_part(const Problem& problem, const MicrobatchPlan& plan, int of_count, int dp) {
  Problem part;
  part.spec = problem.spec;
  part.source = problem.source;
  part.denominators = problem.denominators;
  part.projection = problem.projection;
  part.sampling_mask = problem.sampling_mask;
  part.poison_true_rows = problem.poison_true_rows;
  part.padding = problem.padding;
  part.microbatch = {of_count, dp, plan.dummy, plan.slots, plan.index};
  part.lengths = picked(problem.lengths, plan.sequences);
  part.sample_mask = picked(problem.sample_mask, plan.sequences);
  part.rewards = picked(problem.rewards, plan.sequences);
  part.groups = picked(problem.groups, plan.sequences);
  part.group_count = problem.group_count;
  part.group_tokens = picked(problem.group_tokens, plan.sequences);
  part.temperatures = picked(problem.temperatures, plan.sequences);

  std::vector<std::int64_t> rows;
  part.cu_seqlens.assign(1, 0);
  for (const std::int64_t i : plan.sequences) {
    for (std::int64_t t = problem.cu_seqlens[i]; t < problem.cu_seqlens[i + 1]; ++t) {
      rows.push_back(t);
      part.origin_row.push_back(problem.whole_row(t));
    }
    part.cu_seqlens.push_back(static_cast<std::int64_t>(rows.size()));
    part.origin_sequence.push_back(problem.whole_sequence(i));
  }
  part.input_ids = picked(problem.input_ids, rows);
  part.token_mask = picked(problem.token_mask, rows);
  for (int k = 0; k < kTokenInputs; ++k) part.inputs[k] = picked(problem.inputs[k], rows);
  part.logits = std::make_shared<PartLogits>(problem.logits, rows);
  if (problem.untransformed) {
    part.untransformed = std::make_shared<PartLogits>(problem.untransformed, rows);
  }
  part.teacher_projection = problem.teacher_projection;
  part.teacher_dtype = problem.teacher_dtype;
  part.teacher_sends_logprobs = problem.teacher_sends_logprobs;
  if (problem.given_teacher) {
    part.given_teacher = std::make_shared<PartLogits>(problem.given_teacher, rows);
    part.teacher = std::make_shared<PartLogits>(problem.teacher, std::move(rows));
  }
  if (plan.dummy) blank_dummy(part);
  return part;
}

}  // namespace lossgrid
