// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/plan/plan.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/loss/registry.h"
#include "harness/problem/batch/case_data.h"
#include "harness/problem/batch/problem.h"
#include "harness/problem/case/case_keys.h"
#include "harness/runner/trial/trial_setup.h"

namespace lossgrid {
namespace {

constexpr std::int64_t kMostFittedTokens = std::int64_t{1} << 30;

/// True if a mask has bits, which belong to given lengths; other masks are rules.
bool has_bits(const std::string& mask) {
  return mask.find_first_not_of("01+") == std::string::npos;
}

/// Throws where keys of the case break a rule of make_problem: makes one with the same keys and two
/// tokens.
void require_rules(const CaseSpec& spec) {
  const CaseSpec unset;
  CaseSpec small = spec;
  small.lens = std::string("2");
  small.seqs = unset.seqs;
  small.seq_len = unset.seq_len;
  if (has_bits(spec.mask)) small.mask = unset.mask;
  small.sample_mask = unset.sample_mask;
  small.global_valid_toks = 0;
  small.global_valid_seqs = 0;
  small.vocab = std::min<std::int64_t>(spec.vocab, 16);
  small.hidden = std::min<std::int64_t>(spec.hidden, 16);
  small.teacher_hidden = std::min<std::int64_t>(spec.teacher_hidden, 16);
  // A number that exceeds the vocabulary stays: that is a broken rule.
  if (spec.top_k <= spec.vocab) small.top_k = std::min(spec.top_k, small.vocab);
  if (spec.teacher_topk <= spec.vocab) {
    small.teacher_topk = std::min(spec.teacher_topk, small.vocab);
  }
  make_problem(small);
}

/// Pack without its tokens: costs depend on lengths and on the kinds of inputs.
class PackLayout {
 public:
  /// Lays the case out, without `padding` where that does not fit (padding_misfit).
  PackLayout(const CaseSpec& spec, const Grid& grid, const Padding& padding = {})
      : grid_(grid), objective_(make_objective(spec.objective, spec.statistics, spec.predictions)) {
    require_rules(spec);
    problem_.spec = spec;
    problem_.teacher_dtype = teacher_dtype_of(spec);
    problem_.lengths = case_lengths(spec);
    if (SamplingFilter{spec.top_k, spec.top_p}.is_any()) {
      problem_.sampling_mask = std::make_shared<const SamplingMask>(0, spec.vocab);
    }
    require_fits(problem_, grid);
    misfit_ = padding_misfit(problem_, padding, grid);
    if (!misfit_) problem_.padding = padding;
    const PackedLayout layout = layout_of(problem_, grid);
    const std::int64_t sequences = problem_.sequences();
    batch_.sample_mask = case_sample_mask(spec, sequences);
    if (has_bits(spec.mask)) case_token_mask(spec, layout.cu, batch_.sample_mask);
    batch_.cu_seqlens_padded = layout.cu_padded;
    batch_.cp_layout = grid.cp_layout;
    batch_.cu_seqlens = spec.cu == CuMode::true_lengths ? layout.cu : layout.cu_padded;
    batch_.input_lengths = problem_.lengths;
    const ObjectiveNeeds needs = objective_->needs();
    for (int k = 0; k < kTokenInputs; ++k) batch_.inputs[k].resize(needs.inputs[k] ? 1 : 0);
    if (needs.rewards) batch_.rewards.resize(static_cast<std::size_t>(sequences));
    if (needs.group_size > 0) batch_.group_tokens.resize(static_cast<std::size_t>(sequences));
    objective_->require(batch_);
    require_countable();
  }
  PackLayout(const PackLayout&) = delete;
  PackLayout& operator=(const PackLayout&) = delete;

  /// Returns the task for an implementation. Refers to this layout.
  LossProblem problem() const { return make_loss_problem(problem_, batch_, grid_, *objective_); }
  const std::optional<SkipReason>& misfit() const { return misfit_; }
  std::int64_t tokens() const {
    return std::accumulate(problem_.lengths.begin(), problem_.lengths.end(), std::int64_t{0});
  }

 private:
  /// Throws where a cost may leave 63 bits. Costs are sums of a few products of sizes, of the whole
  /// pack at most: 64 bytes for everything that is stored, 16 FLOPs for every term of a product.
  void require_countable() const {
    const LossProblem pack = problem();
    const std::int64_t rows = std::max<std::int64_t>(1, pack.rows());
    const std::int64_t columns = pack.width() * grid_.tp;
    const std::int64_t hidden = pack.head.hidden;
    const std::int64_t weight = checked_product(columns, hidden, "vocab x hidden");
    checked_product(checked_product(rows, columns, "rows x vocab"), 64, "bytes of rows x vocab");
    checked_product(checked_product(rows, hidden, "rows x hidden"), 64, "bytes of rows x hidden");
    checked_product(weight, 64, "bytes of vocab x hidden");
    const std::int64_t of_teacher = pack.teacher.hidden;
    checked_product(checked_product(rows, of_teacher, "rows x hidden of a teacher"), 64,
                    "bytes of rows x hidden of a teacher");
    const std::int64_t teacher_weight =
        checked_product(columns, of_teacher, "vocab x hidden of a teacher");
    checked_product(teacher_weight, 64, "bytes of vocab x hidden of a teacher");
    checked_product(checked_product(rows, teacher_weight, "rows x vocab x hidden of a teacher"), 16,
                    "FLOPs of a teacher");
    checked_product(checked_product(rows, weight, "rows x vocab x hidden"), 16,
                    "FLOPs of rows x vocab x hidden");
  }

  Grid grid_;
  std::unique_ptr<const Objective> objective_;
  Problem problem_;
  PackedBatch batch_;
  std::optional<SkipReason> misfit_;
};

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

/// Returns the key of the case that `key` stands for. Throws bad_input where the case fixes it.
std::string varied_key(const CaseSpec& spec, FitKey key) {
  if (has_bits(spec.mask)) {
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
  const PackLayout layout(spec, grid, chosen->describe().padding);
  const LossProblem problem = layout.problem();
  PlanRow row;
  row.spec = spec;
  row.grid = grid;
  row.implementation = implementation;
  row.skipped = text_of(no_plan(layout, *chosen));
  if (!row.skipped.empty()) return row;

  const Cost cost = chosen->cost(problem);
  const bool whole_pack = chosen->describe().logprobs == LogprobScope::pack;
  row.tokens = layout.tokens();
  row.padded_tokens = problem.rows();
  row.chunks = cost.chunks;
  row.inputs_bytes = problem.input_bytes();
  row.gradients_bytes = problem.gradient_bytes();
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
  // The fused forward-backward makes both in the forward pass.
  const std::int64_t swept = chosen->describe().one_sweep ? row.gradients_bytes : 0;
  add_phase(1, "forward", cost.forward, row.outputs_bytes + swept);
  add_phase(2, "backward", cost.backward, row.outputs_bytes + row.gradients_bytes);
  return row;
}

std::vector<UpstreamMemory> plan_upstream(const CaseSpec& spec, const Grid& grid) {
  const PackLayout layout(spec, grid);
  return upstream_memory(layout.problem());
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
  // Keeps the plan with `units` of the key where it fits.
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
  high = std::min(high, most + 1);  // does not fit, or is beyond the search
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
