// SPDX-License-Identifier: Apache-2.0
// ReferenceInputs: source of the reference's logits and sink of their gradients, row by row. The
// inputs are logits gathered from all ranks, or hidden states, weight and bias gathered from all
// ranks and multiplied in float64. Plain code; every rank holds everything.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "harness/device/memory/host_view.h"
#include "harness/loss/loss_implementation.h"

namespace lossgrid {

/// Gathered parts of a tensor, one rank after the other; with one rank, the tensor itself.
class Gathered {
 public:
  Gathered(Device& device, std::int64_t part_bytes, int ranks)
      : ranks_(ranks),
        part_bytes_(part_bytes),
        device_(device),
        all_(device.allocate(static_cast<std::size_t>(bytes(part_bytes, ranks)), "gathered",
                             MemorySpace::device)) {}
  static std::int64_t bytes(std::int64_t part_bytes, int ranks) {
    return ranks > 1 ? part_bytes * ranks : 0;
  }
  static void add_cost(std::int64_t part_bytes, int ranks, CollectiveCounts& group, Cost& cost) {
    cost.plan.workspace_bytes += bytes(part_bytes, ranks);
    if (ranks > 1) group.add(Collective::all_gather, 1, part_bytes);
  }

  const void* gather(Communicator& group, const void* part, DType dtype) {
    part_ = part;
    if (ranks_ == 1) return part;
    group.all_gather(part, all_.data(), static_cast<std::size_t>(part_bytes_) / size_of(dtype),
                     dtype);
    return all_.data();
  }

  /// Returns the gathered tensor.
  HostView view() const {
    if (ranks_ > 1) return HostView(all_);
    return {device_, part_, static_cast<std::size_t>(part_bytes_)};
  }

 private:
  int ranks_;
  std::int64_t part_bytes_;
  Device& device_;
  Buffer all_;
  const void* part_ = nullptr;
};

/// Logits [T_c, V_t] gathered from all ranks, read row by row.
class GatheredLogits {
 public:
  GatheredLogits(const LossProblem& problem, RankContext context, std::int64_t part_bytes,
                 DType dtype);
  static void add_cost(const LossProblem& problem, std::int64_t part_bytes, Cost& cost);

  /// Gathers the ranks' parts. Collective.
  void gather(const void* part);
  /// Reads all V logits of the row that a CP rank holds at `slot` among its own.
  void read_row(std::int64_t cp_rank, std::int64_t slot, std::span<double> row) const;

 private:
  const LossProblem& problem_;
  RankContext context_;
  DType dtype_;
  Gathered over_tp_;
  Gathered over_cp_;
  std::optional<HostView> all_;  // [cp][tp][T_c][V_t]
};

/// Ids begin .. end - 1 of the vocabulary.
struct IdRange {
  std::int64_t begin;
  std::int64_t end;
};

class ReferenceInputs {
 public:
  virtual ~ReferenceInputs() = default;
  /// Gathers the inputs. Collective.
  virtual void gather(const LossInputs& inputs) = 0;
  /// Reads all V logits of the row that a CP rank holds at `slot` among its own.
  virtual void read_row(std::int64_t cp_rank, std::int64_t slot, std::span<double> row) = 0;
  /// Starts gradients, which no row has yet.
  virtual void begin_gradient(const LossGradients& gradients) = 0;
  /// Returns the ids whose d loss / d logit add_gradient() reads.
  virtual IdRange gradient_ids() const = 0;
  /// Adds d loss / d logits [V] of this rank's row at `slot`.
  virtual void add_gradient(std::int64_t slot, std::span<const double> row) = 0;
  virtual void end_gradient() = 0;
};

std::unique_ptr<ReferenceInputs> make_reference_inputs(const LossProblem& problem,
                                                       RankContext context);

/// Adds the needs of the inputs to the cost of the plan.
void add_reference_inputs(const LossProblem& problem, Cost& cost);

}  // namespace lossgrid
