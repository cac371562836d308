// SPDX-License-Identifier: Apache-2.0
// `HostCalls`: collectives that a worker asks its host to make (python/PROTOCOL.md, Collectives by
// the host). Payloads are in a memory file that the worker extends. One thread.
#pragma once

#include <cstddef>
#include <memory>

#include <nlohmann/json.hpp>

#include "harness/core/process/descriptor.h"
#include "harness/loss/loss_implementation.h"

namespace lossgrid {

/// Memory file of payloads, as mapped by one side.
class PayloadFile {
 public:
  explicit PayloadFile(Descriptor file) : file_(std::move(file)) {}
  ~PayloadFile();
  PayloadFile(const PayloadFile&) = delete;
  PayloadFile& operator=(const PayloadFile&) = delete;

  int descriptor() const { return file_.get(); }
  /// Maps at least `bytes`. Throws rank_failed if the file is shorter.
  std::byte* map(std::size_t bytes);
  /// Extends the file to at least `bytes`, then maps it. Throws not_enough_memory.
  std::byte* extend(std::size_t bytes);

 private:
  Descriptor file_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

class HostCalls {
 public:
  /// `stage_part` is the number of ranks of the stage with the same dp rank. Collective over
  /// context.stage.
  HostCalls(const RankContext& context, int stage_part);

  int descriptor() const { return payloads_.descriptor(); }
  /// Makes the requested collective on the payloads and returns the answer.
  nlohmann::json make(const nlohmann::json& call);

 private:
  Communicator& group_named(const std::string& name);

  Communicator& tp_;
  Communicator& cp_;
  Communicator& world_;
  std::unique_ptr<Communicator> dp_;
  PayloadFile payloads_;
};

/// Makes the group of the ranks with the same part of the stage. Collective.
std::unique_ptr<Communicator> split_dp(Communicator& stage, int stage_part);

}  // namespace lossgrid
