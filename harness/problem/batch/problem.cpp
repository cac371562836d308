// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/batch/problem.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/core/text.h"
#include "harness/problem/batch/case_data.h"
#include "harness/problem/batch/case_rules.h"
#include "harness/problem/batch/poison.h"
#include "harness/problem/batch/sharding.h"
#include "harness/problem/case/case_keys.h"
#include "harness/problem/values/kept_logits.h"
#include "harness/problem/values/logprob_logits.h"
#include "harness/problem/values/random_streams.h"
#include "harness/problem/values/topk_logits.h"

namespace lossgrid {
namespace {

/// Checks every key of a case that code made; those of a case from text were checked one by one.
void require_checked_keys(const CaseSpec& spec) {
  CaseSpec scratch;
  for (const CaseKey& key : case_keys()) key.set(scratch, key.get(spec));
}

std::vector<std::int64_t> running_sum(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> sums{0};
  sums.reserve(lengths.size() + 1);
  for (const std::int64_t length : lengths) sums.push_back(sums.back() + length);
  return sums;
}

/// Scatters the values of true tokens to their places among pads.
template <typename T>
void copy_tokens(const PackedLayout& layout, const std::vector<T>& tokens, std::vector<T>& padded) {
  for (std::size_t i = 0; i < layout.lengths.size(); ++i) {
    std::copy_n(tokens.begin() + layout.cu[i], layout.lengths[i],
                padded.begin() + layout.cu_padded[i]);
  }
}

}  // namespace

std::int64_t Problem::sequence_of(std::int64_t t) const {
  return std::upper_bound(cu_seqlens.begin(), cu_seqlens.end(), t) - cu_seqlens.begin() - 1;
}

LogitTransform Problem::transform() const {
  return {spec.logit_scale, spec.logit_softcap, spec.temperature, spec.sequence_temperatures};
}

TrueRowTransform Problem::transform_of_row(std::int64_t t) const {
  const LogitTransform rows = transform_of_rows(transform(), spec.hidden > 0);
  if (temperatures.empty()) return row_transform(rows, 1);
  return row_transform(rows, temperatures[static_cast<std::size_t>(sequence_of(t))]);
}

LogitTransform Problem::teacher_transform() const {
  return teacher_sends_logprobs ? LogitTransform() : teacher_part(transform());
}

double Problem::temperature_of_row(std::int64_t t) const {
  if (temperatures.empty()) return spec.temperature;
  return spec.temperature * temperatures[static_cast<std::size_t>(sequence_of(t))];
}

std::vector<std::int32_t> Problem::row_targets() const {
  std::vector<std::int32_t> targets(input_ids.size(), -1);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    for (std::int64_t t = cu_seqlens[i]; t + ahead() < cu_seqlens[i + 1]; ++t) {
      targets[t] = input_ids[t + ahead()];
    }
  }
  return targets;
}

std::vector<std::uint8_t> Problem::row_valid() const {
  std::vector<std::uint8_t> valid(input_ids.size(), 0);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (sample_mask[i] == 0) continue;
    for (std::int64_t t = cu_seqlens[i]; t + ahead() < cu_seqlens[i + 1]; ++t) {
      valid[t] = token_mask[t + ahead()] != 0 ? 1 : 0;
    }
  }
  return valid;
}

std::string describe(const ProblemSource& source) {
  if (const auto* made = std::get_if<FromCase>(&source)) return "--case \"" + made->text + '"';
  return std::get<FromBundle>(source).path;
}

namespace {

/// Returns the temperature of the sequence of every token; empty if there are none.
std::vector<float> temperatures_by_token(const Problem& problem) {
  std::vector<float> by_token;
  for (std::size_t i = 0; i < problem.temperatures.size(); ++i) {
    by_token.insert(by_token.end(), static_cast<std::size_t>(problem.lengths[i]),
                    problem.temperatures[i]);
  }
  return by_token;
}

}  // namespace

void apply_transform(Problem& problem) {
  const LogitTransform rows = transform_of_rows(problem.transform(), problem.spec.hidden > 0);
  if (rows.is_identity()) return;
  problem.untransformed = problem.logits;
  problem.logits =
      make_transformed_logits(problem.untransformed, rows, temperatures_by_token(problem));
}

bool Problem::leaves_out_target(std::int64_t t, std::int32_t target) const {
  if (sampling_mask == nullptr || target < 0) return false;
  double z = 0;
  logits->read(t, target, std::span<double>(&z, 1));
  return z == -std::numeric_limits<double>::infinity();
}

void set_sampling_mask(Problem& problem, std::shared_ptr<const SamplingMask> mask) {
  if (problem.untransformed == nullptr) problem.untransformed = problem.logits;
  problem.sampling_mask = std::move(mask);
  problem.logits = make_masked_logits(problem.logits, problem.sampling_mask);
  if (problem.spec.filtered_targets != FilteredTargets::drop) return;
  const std::vector<std::int32_t> targets = problem.row_targets();
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    if (problem.leaves_out_target(t, targets[t])) problem.token_mask[t + 1] = 0;
  }
  problem.denominators =
      case_denominators(problem.spec, problem.cu_seqlens, problem.token_mask, problem.sample_mask);
}

void set_teacher(Problem& problem, std::shared_ptr<const LogitsSource> given, DType dtype) {
  const LogitTransform transform = problem.teacher_transform();
  problem.given_teacher = std::move(given);
  problem.teacher_dtype = dtype;
  problem.teacher = transform.is_identity()
                        ? problem.given_teacher
                        : make_transformed_logits(problem.given_teacher, transform,
                                                  temperatures_by_token(problem));
}

void set_teacher(Problem& problem, std::shared_ptr<const Projection> projection) {
  const bool all_bf16 =
      projection->hidden_dtype == DType::bf16 && projection->weight_dtype == DType::bf16;
  problem.spec.teacher_hidden = projection->size;
  problem.teacher_projection = std::move(projection);
  set_teacher(problem, make_projected_logits(problem.teacher_projection),
              all_bf16 ? DType::bf16 : DType::f32);
}

DType teacher_dtype_of(const CaseSpec& spec) {
  return spec.dtype == DType::bf16 ? DType::bf16 : DType::f32;
}

void draw_teacher(Problem& problem, bool sends_logprobs) {
  CaseSpec spec = problem.spec;
  spec.seed = mix_bits(spec.seed + static_cast<std::uint64_t>(Stream::teacher));
  spec.dtype = teacher_dtype_of(spec);
  problem.teacher_sends_logprobs = sends_logprobs;
  if (spec.teacher_hidden > 0) {
    set_teacher(problem, make_projection(case_of_teacher_projection(spec), problem.input_ids,
                                         problem.row_targets()));
    return;
  }
  const bool is_about_targets =
      spec.values == Values::buried_target || spec.values == Values::impossible_target;
  if (is_about_targets) spec.values = Values::normal;
  auto logits = make_random_logits(spec, problem.row_targets());
  if (sends_logprobs) logits = make_logprobs(std::move(logits), spec.vocab, spec.dtype);
  if (spec.teacher_topk > 0) {
    logits = make_topk_logits(std::move(logits), spec.vocab, spec.teacher_topk);
  }
  set_teacher(problem, keep_logits(std::move(logits), problem.tokens(), spec.vocab, spec.dtype),
              spec.dtype);
}

void require_teacher(const Problem& problem, const Divergence& divergence) {
  const bool takes_logprobs = divergence.takes_logprobs();
  const bool is_there = problem.given_teacher != nullptr;
  if (is_there && takes_logprobs && problem.spec.teacher_topk == 0) {
    throw_bad_input("{}: {} with these options needs the top k of a teacher (teacher_topk)",
                    describe(problem.source), problem.spec.objective.kind);
  }
  if (is_there && takes_logprobs == problem.teacher_sends_logprobs) return;
  throw_bad_input("{}: {}, which {} needs", describe(problem.source),
                  takes_logprobs
                      ? "tensor teacher_topk_logprobs (with teacher_topk_ids) is missing"
                      : "tensor teacher_logits is missing (nor are there teacher_hidden and "
                        "teacher_weight, or teacher_topk_ids and teacher_topk_logits)",
                  problem.spec.objective.kind);
}

Problem make_problem(const CaseSpec& spec) {
  require_checked_keys(spec);
  require_case_rules(spec);
  Problem problem;
  problem.spec = spec;
  problem.source = FromCase{format_case(spec)};
  problem.lengths = case_lengths(spec);
  problem.cu_seqlens = running_sum(problem.lengths);
  checked_product(problem.tokens(), spec.vocab, "tokens x vocab");
  checked_product(problem.tokens(), spec.hidden, "tokens x hidden");
  checked_product(spec.vocab, spec.hidden, "vocab x hidden");
  checked_product(problem.tokens(), spec.teacher_hidden, "tokens x teacher_hidden");
  checked_product(spec.vocab, spec.teacher_hidden, "vocab x teacher_hidden");
  layout_of(problem, Grid{});
  problem.sample_mask = case_sample_mask(spec, problem.sequences());
  problem.token_mask = case_token_mask(spec, problem.cu_seqlens, problem.sample_mask);
  if (spec.head == Head::score) keep_last_tokens(problem.cu_seqlens, problem.token_mask);
  problem.input_ids = case_input_ids(spec, problem.tokens());
  problem.denominators =
      case_denominators(spec, problem.cu_seqlens, problem.token_mask, problem.sample_mask);
  if (spec.hidden > 0) {
    problem.projection = make_projection(spec, problem.input_ids, problem.row_targets());
    problem.logits = make_projected_logits(problem.projection);
  } else {
    problem.logits = keep_logits(make_random_logits(spec, problem.row_targets()), problem.tokens(),
                                 spec.vocab, spec.dtype);
  }
  problem.temperatures = case_temperatures(spec, problem.sequences());
  apply_transform(problem);
  if (const SamplingFilter filter{spec.top_k, spec.top_p}; filter.is_any()) {
    auto mask = make_sampling_mask(*problem.logits, problem.tokens(), spec.vocab, filter);
    draw_kept_targets(spec, problem.cu_seqlens, *mask, problem.input_ids);
    set_sampling_mask(problem, std::move(mask));
  }
  problem.poison_true_rows = spec.poison != Poison::none;
  return problem;
}

PackedLayout layout_of(const Problem& problem, const Grid& grid) {
  const Padding of_case{problem.spec.pad_multiple, problem.spec.bin_multiple};
  const Padding padding = joined(of_case, problem.padding);
  return make_layout(problem.lengths, padding.sequence, padding.pack, grid);
}

std::shared_ptr<const Problem> padded_for(std::shared_ptr<const Problem> problem,
                                          const Padding& padding) {
  const Padding both = joined(problem->padding, padding);
  if (both == problem->padding) return problem;
  auto padded = std::make_shared<Problem>(*problem);
  padded->padding = both;
  return padded;
}

PackedBatch pack(const Problem& problem, const Grid& grid) {
  const CaseSpec& spec = problem.spec;
  const PackedLayout layout = layout_of(problem, grid);
  PackedBatch batch;
  batch.cu_seqlens_padded = layout.cu_padded;
  batch.cp_layout = grid.cp_layout;
  batch.ahead = problem.ahead();
  batch.sample_mask = problem.sample_mask;
  batch.denominators = problem.denominators;
  batch.rewards = problem.rewards;
  batch.group_tokens = problem.group_tokens;
  batch.temperatures = problem.temperatures;
  batch.input_lengths = problem.lengths;
  batch.microbatch = problem.microbatch;
  if (spec.cu == CuMode::true_lengths) {
    batch.cu_seqlens = layout.cu;
    batch.input_ids = problem.input_ids;
    batch.token_mask = problem.token_mask;
    batch.inputs = problem.inputs;
    return batch;
  }
  batch.cu_seqlens = layout.cu_padded;
  const auto rows = static_cast<std::size_t>(layout.padded_tokens());
  const RandomStream random = random_stream(spec.seed, Stream::pad_ids);
  batch.input_ids.resize(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    batch.input_ids[row] =
        static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(spec.vocab), row));
  }
  copy_tokens(layout, problem.input_ids, batch.input_ids);
  batch.token_mask.assign(rows, 0);
  copy_tokens(layout, problem.token_mask, batch.token_mask);
  for (int k = 0; k < kTokenInputs; ++k) {
    if (problem.inputs[k].empty()) continue;
    batch.inputs[k].assign(rows, poison_or(spec.poison, 0.0f));
    copy_tokens(layout, problem.inputs[k], batch.inputs[k]);
  }
  return batch;
}

void require_fits(const Problem& problem, const Grid& grid) {
  const CaseSpec& spec = problem.spec;
  if (grid.tp < 1 || grid.cp < 1 || grid.dp < 1 || grid.pp < 1) {
    throw_bad_input("grid tp = {}, cp = {}, dp = {}, pp = {}", grid.tp, grid.cp, grid.dp, grid.pp);
  }
  if (vocab_ranks(spec.vocab, grid.tp) > spec.vocab) {
    throw_bad_input("tp = {} exceeds the vocabulary of {}", grid.tp, spec.vocab);
  }
  const PackedLayout layout = layout_of(problem, grid);
  const std::int64_t rows = layout.padded_tokens() / grid.cp;
  const std::int64_t width = vocab_shard(spec.vocab, grid.tp, 0).width;
  checked_product(rows, width, "rows x columns of a logits shard");
  checked_product(rows / grid.row_parts(), spec.hidden, "rows x hidden of a rank");
  checked_product(width, spec.hidden, "ids x hidden of a weight shard");
  checked_product(rows / grid.row_parts(), spec.teacher_hidden,
                  "rows x hidden of a rank's teacher");
  checked_product(width, spec.teacher_hidden, "ids x hidden of a teacher's weight shard");
}

}  // namespace lossgrid
