// SPDX-License-Identifier: Apache-2.0
#include "impls/toolkit/strategy.h"

#include <algorithm>
#include <map>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/device/backend.h"
#include "harness/device/kernel/items.h"
#include "impls/kernels/kept_columns.h"
#include "impls/kernels/row_positions.h"

namespace lossgrid {
namespace {

std::map<std::string, StrategyFactory>& factories() {
  static std::map<std::string, StrategyFactory> map;
  return map;
}

bool transforms_rows(const LossProblem& problem) {
  return !problem.row_transform().is_identity();
}

bool transforms_teacher(const LossProblem& problem) {
  return problem.has_teacher() && !problem.teacher.transform.is_identity();
}

/// Sets the transform of every row by the temperature of its sequence.
void fill_transforms(const LogitTransform& transform, const PackedBatch& batch,
                     const std::vector<std::int32_t>& sequence, DeviceArray<RowTransform>& out) {
  for (std::size_t row = 0; row < out.size(); ++row) {
    const double own = batch.temperatures.empty()
                           ? 1.0
                           : batch.temperatures[static_cast<std::size_t>(sequence[row])];
    out[row] = row_transform(transform, own).as_float();
  }
}

/// Returns `count` if kernels are launched, else 0, because loops of the host go through all rows
/// and need neither ranges of tokens nor copies.
std::int64_t for_kernels(Backend backend, std::int64_t count) {
  return traits_of(backend).launches_kernels ? count : 0;
}

}  // namespace

RegisteredStrategy::RegisteredStrategy(const std::string& name, StrategyFactory factory,
                                       std::map<std::string, std::vector<std::string>> draws) {
  ImplementationEntry entry;
  entry.name = name;
  entry.draws = std::move(draws);
  entry.make = [factory](const ImplementationOptions& options) {
    return factory(Steps(), options);
  };
  register_implementation(std::move(entry));
  factories().emplace(name, std::move(factory));
}

std::unique_ptr<LossImplementation> make_strategy(const std::string& name, const Steps& steps,
                                                  const ImplementationOptions& options) {
  const auto factory = factories().find(name);
  if (factory == factories().end()) {
    throw Error(ErrorCode::internal, fmt::format("no strategy '{}' to make a mutant of", name));
  }
  return factory->second(steps, options);
}

RowTable::RowTable(Device& device, const ShiftedBatch& rows, const LossProblem& problem)
    : device_(device),
      targets_(device, rows.rows(), "row_table"),
      for_kernels_(device,
                   static_cast<std::size_t>(
                       for_kernels(device.backend(), static_cast<std::int64_t>(rows.rows()))),
                   "row_table", MemorySpace::device),
      valid_(device, rows.rows(), "row_table"),
      real_(device, rows.rows(), "row_table"),
      sequence_(device, rows.rows(), "row_table"),
      places_(device, problem.objective.needs().selects ? rows.rows() : 0, "row_table"),
      transforms_(device, transforms_rows(problem) ? rows.rows() : 0, "row_table"),
      teacher_transforms_(device, transforms_teacher(problem) ? rows.rows() : 0, "row_table"),
      ranges_(device,
              static_cast<std::size_t>(for_kernels(device.backend(), problem.batch.sequences())),
              "row_table") {
  std::copy(rows.targets.begin(), rows.targets.end(), targets_.begin());
  if (for_kernels_.size() > 0) {
    device.copy(for_kernels_.data(), targets_.data(), targets_.buffer().bytes());
  }
  std::copy(rows.valid.begin(), rows.valid.end(), valid_.begin());
  std::copy(rows.real.begin(), rows.real.end(), real_.begin());
  std::copy(rows.sequence.begin(), rows.sequence.end(), sequence_.begin());
  for (const std::vector<float>& input : rows.inputs) {
    inputs_.emplace_back(device, input.size(), "row_table");
    std::copy(input.begin(), input.end(), inputs_.back().begin());
  }
  const std::vector<float> weights = problem.objective.token_weights(problem.batch, rows);
  weights_ = DeviceArray<float>(device, weights.size(), "row_table");
  std::copy(weights.begin(), weights.end(), weights_.begin());
  std::copy_n(rows.place.begin(), places_.size(), places_.begin());
  fill_transforms(problem.row_transform(), problem.batch, rows.sequence, transforms_);
  fill_transforms(problem.teacher.transform, problem.batch, rows.sequence, teacher_transforms_);
  std::fill(ranges_.begin(), ranges_.end(), TokenRange());
  for (std::size_t row = 0; ranges_.size() > 0 && row < rows.rows(); ++row) {
    TokenRange& range = ranges_[static_cast<std::size_t>(rows.sequence[row])];
    if (range.end == 0) range.begin = static_cast<std::int32_t>(row);
    range.end = static_cast<std::int32_t>(row) + 1;
  }
}

std::int64_t RowTable::bytes(const LossProblem& problem, std::int64_t rows) {
  std::int64_t row = 4 + 1 + 1 + 4;
  for (const std::vector<float>& input : problem.batch.inputs) row += input.empty() ? 0 : 4;
  if (problem.objective.needs().token_weights) row += 4;
  if (problem.objective.needs().selects) row += 4;
  if (transforms_rows(problem)) row += static_cast<std::int64_t>(sizeof(RowTransform));
  if (transforms_teacher(problem)) row += static_cast<std::int64_t>(sizeof(RowTransform));
  row += for_kernels(problem.backend, 4);
  return rows * row + for_kernels(problem.backend, problem.batch.sequences()) *
                          static_cast<std::int64_t>(sizeof(TokenRange));
}

ObjectiveTokens RowTable::tokens(const TokenOutputs& outputs, std::int64_t begin,
                                 std::int64_t count) const {
  const auto from = static_cast<std::size_t>(begin);
  const auto size = static_cast<std::size_t>(count);
  const TokenOutputs part = outputs.part(begin, count);
  ObjectiveTokens tokens{.logprobs = part.logprobs,
                         .terms = {},
                         .valid = {valid_.data() + from, size},
                         .real = {real_.data() + from, size},
                         .sequence = {sequence_.data() + from, size},
                         .inputs = {},
                         .ranges = {ranges_.data(), ranges_.size()},
                         .first = begin};
  for (const RowTerm term : kAllRowTerms) tokens.terms[term] = part.terms[term];
  if (weights_.size() > 0) tokens.weights = {weights_.data() + from, size};
  if (places_.size() > 0) tokens.places = {places_.data() + from, size};
  for (int k = 0; k < kTokenInputs; ++k) {
    if (inputs_[k].size() > 0) tokens.inputs[k] = {inputs_[k].data() + from, size};
  }
  return tokens;
}

RowGradients row_gradients(const TokenGradients& gradients) {
  const auto at = [](std::span<float> column) { return column.empty() ? nullptr : column.data(); };
  RowGradients rows{gradients.logprob.data()};
  for (const RowTerm term : kAllGradientTerms) rows.terms[term] = at(gradients.terms[term]);
  return rows;
}

void gather_gradients(Device& device, std::int64_t rows, const TokenGradients& from,
                      const std::int32_t* positions, std::int64_t first, const TokenGradients& to) {
  const auto sources = from.columns();
  const auto targets = to.columns();
  for (std::size_t c = 0; c < sources.size(); ++c) {
    if (targets[c].empty()) continue;
    for_each_item(device, rows,
                  GatherRow{sources[c].data(), positions, static_cast<std::int32_t>(first),
                            targets[c].data()});
  }
}

void scatter_columns(Device& device, std::span<const float> blocks, std::int64_t rows, int ranks,
                     const std::int32_t* positions, std::int64_t stride, const TokenOutputs& pack) {
  ScatterRow scatter{.from = blocks.data(),
                     .rows = rows,
                     .columns = 0,
                     .positions = positions,
                     .stride = stride,
                     .to = {}};
  for (const std::span<float> column : pack.columns()) {
    if (!column.empty()) scatter.to[scatter.columns++] = column.data();
  }
  for_each_item(device, ranks * rows, scatter);
}

std::int64_t read_stream_bytes(const ImplementationOptions& options, const std::string& strategy) {
  const auto bytes = options.find("stream_bytes");
  if (bytes == options.end()) return kStreamBytes;
  return parse_integer(bytes->second, strategy + ": stream_bytes", 0, std::int64_t{1} << 62);
}

LogitsRows logits_rows(const LossProblem& problem, const VocabShard& shard,
                       const LossInputs& inputs, const RowTable& rows, std::int64_t stream_bytes) {
  LogitsRows logits{.dtype = problem.dtype,
                    .data = inputs.logits,
                    .rows = rows.rows(),
                    .shard = shard,
                    .targets = rows.targets(),
                    .valid = rows.valid(),
                    .device = &rows.device(),
                    .past_caches = problem.logits_bytes() >= stream_bytes,
                    .vocab = problem.vocab,
                    .transforms = rows.transforms()};
  add_teacher(problem, inputs, rows, 0, logits);
  add_mask(problem, inputs, 0, logits);
  return logits;
}

void add_teacher(const LossProblem& problem, const LossInputs& inputs, const RowTable& rows,
                 std::int64_t begin, LogitsRows& logits) {
  if (!problem.has_teacher()) return;
  const auto row_bytes = static_cast<std::size_t>(problem.width()) * size_of(problem.teacher.dtype);
  logits.divergence = problem.terms().divergence;
  logits.teacher_transforms = rows.teacher_transforms(begin);
  if (problem.makes_teacher()) return;
  logits.teacher_dtype = problem.teacher.dtype;
  logits.teacher =
      static_cast<const std::byte*>(inputs.teacher) + static_cast<std::size_t>(begin) * row_bytes;
}

void add_mask(const LossProblem& problem, const LossInputs& inputs, std::int64_t begin,
              LogitsRows& logits) {
  if (!problem.sampling.has_mask) return;
  logits.kept = KeptColumns::of_row(inputs.kept, problem.width(), begin).words;
}

std::int64_t divergence_reads(const LossProblem& problem) {
  if (!problem.has_teacher()) return 0;
  const Divergence divergence = problem.terms().divergence;
  return divergence.on_support() || divergence.has_tail() ? 2 : 1;
}

void add_teacher_reads(const LossProblem& problem, std::int64_t times, PhaseCost& phase) {
  if (problem.makes_teacher()) {
    phase.cached_read_bytes += times * kFloatBytes * problem.local_rows() * problem.width();
  } else {
    phase.read_bytes += times * problem.teacher_logits_bytes();
  }
}

std::int64_t teacher_statistics_reads(const LossProblem& problem) {
  return problem.terms().divergence.is_clamped() ? 0 : 1;
}

void add_statistics_traffic(const LossProblem& problem, PhaseCost& phase) {
  const std::int64_t reads = divergence_reads(problem);
  phase.read_bytes += (1 + reads) * problem.logits_bytes() + problem.mask_bytes();
  add_teacher_reads(problem, teacher_statistics_reads(problem) + reads, phase);
  add_statistics_work(problem, phase);
}

void add_statistics_work(const LossProblem& problem, PhaseCost& phase) {
  const std::int64_t passes = problem.has_teacher() ? 2 + 2 * divergence_reads(problem) : 1;
  phase.exponentials += passes * problem.logits_elements();
}

void add_gradient_work(const LossProblem& problem, PhaseCost& phase) {
  phase.exponentials += (problem.has_teacher() ? 2 : 1) * problem.logits_elements();
  phase.gradients += problem.logits_elements();
}

void add_logits_traffic(const LossProblem& problem, Cost& cost) {
  add_statistics_traffic(problem, cost.forward);
  cost.backward.read_bytes += problem.logits_bytes() + problem.mask_bytes();
  add_teacher_reads(problem, 1, cost.backward);
  cost.backward.written_bytes += problem.logits_bytes();
  add_gradient_work(problem, cost.backward);
}

DeviceArray<std::int32_t> copy_positions(Device& device,
                                         const std::vector<std::int64_t>& positions) {
  DeviceArray<std::int32_t> array(device, positions.size(), "row_table");
  std::transform(positions.begin(), positions.end(), array.begin(),
                 [](std::int64_t position) { return static_cast<std::int32_t>(position); });
  return array;
}

}  // namespace lossgrid
