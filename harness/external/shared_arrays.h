// SPDX-License-Identifier: Apache-2.0
// `SharedArrays`: the arrays of one pack that a worker process maps too (python/PROTOCOL.md,
// arena): inputs and outputs of the user's function, and upstream gradients of its backward.
// Belongs to one rank and is used by its thread.
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
  /// Allocates the arrays and writes the batch. `pack` has the rows of the padded pack, `positions`
  /// the places of this rank's rows in it; `out_rows` is the number of rows of outputs, `own_ids`
  /// the number of columns of the logits without padding. Throws not_enough_memory. The arguments
  /// must outlive the object.
  SharedArrays(const LossProblem& problem, const ExternalDeclaration& declaration,
               const ShiftedBatch& pack, const std::vector<std::int64_t>& positions,
               std::int64_t out_rows, std::int64_t own_ids);

  int descriptor() const { return memory_.descriptor(); }
  std::byte* memory() const { return memory_.data(); }
  /// Returns the list that `begin` sends.
  const nlohmann::json& list() const { return layout_.list(); }
  std::byte* at(const std::string& name) const { return bytes_of(name).data(); }
  template <typename T>
  std::span<T> array(const std::string& name) const {
    const std::span<std::byte> bytes = bytes_of(name);
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  /// Copies the inputs from memory of `device`, and takes fingerprints of all arrays that the
  /// worker must not change. Rows with values that no model passes to a loss (NaN, an infinity that
  /// is no mask) become zero, because frameworks may multiply such rows by a mask of zeros.
  void write_inputs(Device& device, const LossInputs& inputs);
  /// Returns the arrays that the worker changed since write_inputs although it must not.
  std::vector<std::string> changed() const;

  /// True if all hidden states are 0 or 1, so that an engine can read them as ids.
  bool holds_ids() const;

 private:
  void lay_out(std::int64_t out_rows);
  void write_batch();
  void write_token_input(int k);
  void write_mask(Device& device, const std::uint64_t* kept);
  /// Copies the values of an array of `T`, converted.
  template <typename T, typename U>
  void write(const std::string& name, const std::vector<U>& values);
  std::span<std::byte> bytes_of(const std::string& name) const;
  /// Returns fingerprints of all arrays that the worker must not change.
  std::map<std::string, std::uint64_t> bits() const;

  const LossProblem& problem_;
  const ExternalDeclaration& declaration_;
  const ShiftedBatch& pack_;
  const std::vector<std::int64_t>& positions_;
  const std::int64_t own_ids_;
  ArenaLayout layout_;
  SharedMemory memory_;
  std::map<std::string, std::uint64_t> bits_;
};

}  // namespace lossgrid
