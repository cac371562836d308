// SPDX-License-Identifier: Apache-2.0
// The arrays of one pack that a worker process maps too (python/PROTOCOL.md, arena): what the
// user's function is given, what it returns, and what its backward starts from. Of one rank, used
// by its thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/external/arena_layout.h"
#include "harness/external/declaration.h"
#include "harness/external/shared_memory.h"
#include "harness/problem/batch/sharding.h"

namespace lossgrid {

class SharedArrays {
 public:
  /// With the batch written. `pack`: the rows of the padded pack; `positions`: the own ones among
  /// them; `out_rows`: those that outputs stand for. Throws not_enough_memory. What is referred to
  /// outlives the object.
  SharedArrays(const LossProblem& problem, const ExternalDeclaration& declaration,
               const ShiftedBatch& pack, const std::vector<std::int64_t>& positions,
               std::int64_t out_rows);

  int descriptor() const { return memory_.descriptor(); }
  /// The list that `begin` sends.
  const nlohmann::json& list() const { return layout_.list(); }
  std::byte* at(const std::string& name) const { return bytes_of(name).data(); }
  template <typename T>
  std::span<T> array(const std::string& name) const {
    const std::span<std::byte> bytes = bytes_of(name);
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  /// Copies the inputs from memory of `device`, and keeps the bits of all that the worker may not
  /// change. Rows that hold what no model hands to a loss (NaN, an infinity that is no mask) become
  /// zero: frameworks multiply such rows by a mask of zeros, and may.
  void write_inputs(Device& device, const LossInputs& inputs);
  /// The arrays that the worker has changed since then and may not.
  std::vector<std::string> changed() const;

  /// Whether every row of the hidden states holds zeros and ones alone, so that an engine can take
  /// them for ids.
  bool holds_ids() const;

 private:
  void lay_out(std::int64_t out_rows);
  void write_batch();
  void write_token_input(int k);
  /// Copies the values of an array of `T`, converted.
  template <typename T, typename U>
  void write(const std::string& name, const std::vector<U>& values);
  std::span<std::byte> bytes_of(const std::string& name) const;
  /// Of all arrays that the worker may not change.
  std::map<std::string, std::uint64_t> bits() const;

  const LossProblem& problem_;
  const ExternalDeclaration& declaration_;
  const ShiftedBatch& pack_;
  const std::vector<std::int64_t>& positions_;
  ArenaLayout layout_;
  SharedMemory memory_;
  std::map<std::string, std::uint64_t> bits_;
};

}  // namespace lossgrid
