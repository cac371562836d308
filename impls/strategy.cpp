// SPDX-License-Identifier: Apache-2.0
#include "impls/strategy.h"

#include <algorithm>
#include <map>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

std::map<std::string, StrategyFactory>& factories() {
  static std::map<std::string, StrategyFactory> map;
  return map;
}

}  // namespace

RegisteredStrategy::RegisteredStrategy(const std::string& name, StrategyFactory factory) {
  ImplementationEntry entry;
  entry.name = name;
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

RowTable::RowTable(Device& device, const ShiftedBatch& rows)
    : targets_(device, rows.targets.size(), "row_table"),
      valid_(device, rows.valid.size(), "row_table"),
      sequence_(device, rows.sequence.size(), "row_table") {
  std::copy(rows.targets.begin(), rows.targets.end(), targets_.begin());
  std::copy(rows.valid.begin(), rows.valid.end(), valid_.begin());
  std::copy(rows.sequence.begin(), rows.sequence.end(), sequence_.begin());
}

ObjectiveTokens RowTable::tokens(std::span<const float> logprobs, std::int64_t begin,
                                 std::int64_t count) const {
  const auto from = static_cast<std::size_t>(begin);
  const auto size = static_cast<std::size_t>(count);
  return {
      logprobs.subspan(from, size), {valid_.data() + from, size}, {sequence_.data() + from, size}};
}

LogitsRows logits_rows(const LossProblem& problem, const VocabShard& shard,
                       const LossInputs& inputs, const RowTable& rows) {
  return {problem.dtype, inputs.logits, rows.rows(), shard, rows.targets(), rows.valid()};
}

DeviceArray<std::int32_t> copy_positions(Device& device,
                                         const std::vector<std::int64_t>& positions) {
  DeviceArray<std::int32_t> array(device, positions.size(), "row_table");
  std::transform(positions.begin(), positions.end(), array.begin(),
                 [](std::int64_t position) { return static_cast<std::int32_t>(position); });
  return array;
}

}  // namespace lossgrid
