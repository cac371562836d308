// SPDX-License-Identifier: Apache-2.0
// Common parts of the sharded strategies: registration under a name, with the steps as a parameter
// so that mutants use the same code, and the row tables of a plan.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/loss/registry.h"
#include "impls/toolkit/steps.h"

namespace lossgrid {

inline constexpr std::int64_t kFloatBytes = 4;
inline constexpr std::int64_t kPositionBytes = 4;

using StrategyFactory =
    std::function<std::unique_ptr<LossImplementation>(const Steps&, const ImplementationOptions&)>;

/// Registers the strategy with the right steps as a real implementation, and keeps the factory for
/// make_strategy. `draws`: ImplementationEntry::draws.
struct RegisteredStrategy {
  RegisteredStrategy(const std::string& name, StrategyFactory factory,
                     std::map<std::string, std::vector<std::string>> draws = {});
};

/// Makes strategy `name` with the given steps.
std::unique_ptr<LossImplementation> make_strategy(const std::string& name, const Steps& steps,
                                                  const ImplementationOptions& options);

/// Targets of rows and the objective's inputs, in buffers of the rank.
class RowTable {
 public:
  /// Copies `rows` of the pack of `problem`.
  RowTable(Device& device, const ShiftedBatch& rows, const LossProblem& problem);
  static std::int64_t bytes(const LossProblem& problem, std::int64_t rows);

  std::int64_t rows() const { return static_cast<std::int64_t>(targets_.size()); }
  Device& device() const { return device_; }
  RowTargets targets() const {
    return {targets_.data(), for_kernels_.size() > 0 ? for_kernels_.data() : targets_.data()};
  }
  const std::uint8_t* valid() const { return valid_.data(); }
  /// Returns the transforms of rows from `begin` on; null if logits are not transformed.
  const RowTransform* transforms(std::int64_t begin = 0) const {
    return transforms_.size() > 0 ? transforms_.data() + begin : nullptr;
  }
  /// Returns the transforms of a teacher's logits in the same way.
  const RowTransform* teacher_transforms(std::int64_t begin = 0) const {
    return teacher_transforms_.size() > 0 ? teacher_transforms_.data() + begin : nullptr;
  }
  /// Returns the tokens of rows [begin, begin + count) of this table and of `outputs`.
  ObjectiveTokens tokens(const TokenOutputs& outputs, std::int64_t begin, std::int64_t count) const;

 private:
  Device& device_;
  DeviceArray<std::int32_t> targets_;
  DeviceArray<std::int32_t> for_kernels_;  // copy of the targets, if kernels are launched
  DeviceArray<std::uint8_t> valid_;
  DeviceArray<std::uint8_t> real_;
  DeviceArray<std::int32_t> sequence_;
  std::vector<DeviceArray<float>> inputs_;  // by TokenInput
  DeviceArray<float> weights_;
  DeviceArray<std::int32_t> places_;  // if the objective selects
  DeviceArray<RowTransform> transforms_;
  DeviceArray<RowTransform> teacher_transforms_;
  DeviceArray<TokenRange> ranges_;  // by sequence, for kernels
};

/// Returns option stream_bytes: the size from which a gradient is written past the caches. With
/// stream_bytes=0 a small case takes the path of a large case. Throws bad_input.
std::int64_t read_stream_bytes(const ImplementationOptions& options, const std::string& strategy);

/// Returns this rank's logits with their targets. A gradient of `stream_bytes` or more is written
/// past the caches, even by a strategy that writes it part by part, because no cache holds all of
/// it.
LogitsRows logits_rows(const LossProblem& problem, const VocabShard& shard,
                       const LossInputs& inputs, const RowTable& rows,
                       std::int64_t stream_bytes = kStreamBytes);

/// Adds the rows of a teacher, from row `begin` of the table on, to the rows of `logits`. Does
/// nothing without a teacher. Logits that are not given are made separately (teacher_product.h).
void add_teacher(const LossProblem& problem, const LossInputs& inputs, const RowTable& rows,
                 std::int64_t begin, LogitsRows& logits);

/// Adds the kept columns of the rows, from row `begin` of the inputs on. Does nothing without a
/// sampling mask.
void add_mask(const LossProblem& problem, const LossInputs& inputs, std::int64_t begin,
              LogitsRows& logits);

/// Buffer of floats and its span. The host may access it only if it may access the memory space.
class FloatArray {
 public:
  FloatArray() = default;
  FloatArray(Device& device, std::int64_t size, const char* tag,
             MemorySpace space = MemorySpace::shared)
      : array_(device, static_cast<std::size_t>(size), tag, space) {}
  std::span<float> span() { return {array_.data(), array_.size()}; }
  std::span<float> span(std::int64_t begin, std::int64_t count) {
    return span().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
  }
  float* data() { return array_.data(); }
  float& operator[](std::int64_t i) { return array_[static_cast<std::size_t>(i)]; }

 private:
  DeviceArray<float> array_;
};

/// Returns the columns of `gradients` for the kernels.
RowGradients row_gradients(const TokenGradients& gradients);

/// d loss / d numbers of some rows, in a buffer of the rank.
class GradientTable {
 public:
  GradientTable(Device& device, const LossProblem& problem, std::int64_t rows)
      : columns_(problem.gradient_columns()),
        problem_(problem),
        rows_(rows),
        array_(device, columns_ * rows, "grad_logprobs") {}
  static std::int64_t bytes(const LossProblem& problem, std::int64_t rows) {
    return kFloatBytes * problem.gradient_columns() * rows;
  }

  TokenGradients all() { return gradients_in(array_.span(), problem_, rows_); }
  TokenGradients part(std::int64_t begin, std::int64_t count) {
    return all().part(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
  }
  RowGradients from(std::int64_t begin) { return row_gradients(all()).from(begin); }

 private:
  std::int64_t columns_;
  const LossProblem& problem_;
  std::int64_t rows_;
  FloatArray array_;
};

/// Gathers `rows` rows of every column: to[k] := from[positions[k] - first].
void gather_gradients(Device& device, std::int64_t rows, const TokenGradients& from,
                      const std::int32_t* positions, std::int64_t first, const TokenGradients& to);

/// Scatters columns (columns_in) of `rows` rows of each of `ranks` ranks from `blocks` to the pack;
/// positions of a rank's rows begin at positions[rank * stride].
void scatter_columns(Device& device, std::span<const float> blocks, std::int64_t rows, int ranks,
                     const std::int32_t* positions, std::int64_t stride, const TokenOutputs& pack);

/// Returns how often both tensors of a divergence are read in addition to statistics and gradient:
/// for its sums, and for statistics on a support.
std::int64_t divergence_reads(const LossProblem& problem);

/// Returns how often a teacher's logits are read for its statistics; 0 if it needs none.
std::int64_t teacher_statistics_reads(const LossProblem& problem);

/// Adds reads of a teacher's logits. If they are computed, a cache holds their chunk.
void add_teacher_reads(const LossProblem& problem, std::int64_t times, PhaseCost& phase);

/// Adds the traffic of reading the logits, including a teacher's, for the statistics.
void add_statistics_traffic(const LossProblem& problem, PhaseCost& phase);

/// The following functions add the elements that kernels process for the statistics, and for the
/// gradient of the logits.
void add_statistics_work(const LossProblem& problem, PhaseCost& phase);
void add_gradient_work(const LossProblem& problem, PhaseCost& phase);

/// Adds the traffic for the statistics to the forward pass, and the traffic of reading and writing
/// for the gradient to the backward pass.
void add_logits_traffic(const LossProblem& problem, Cost& cost);

/// Copies positions as 32-bit integers to a buffer of the rank.
DeviceArray<std::int32_t> copy_positions(Device& device,
                                         const std::vector<std::int64_t>& positions);

}  // namespace lossgrid
