// SPDX-License-Identifier: Apache-2.0
// cp_gather_logits: all-gathers the logits over CP and computes every row of the pack on every CP
// rank. CP-local strategies replaced it; it is kept to measure its cost.
#include <algorithm>
#include <iterator>
#include <vector>

#include "impls/kernels/row_positions.h"
#include "impls/toolkit/objective_pass.h"
#include "impls/toolkit/shard_statistics.h"
#include "impls/toolkit/strategy.h"
#include "impls/toolkit/teacher_product.h"

namespace lossgrid {
namespace {

class GatherLogitsPlan final : public LossPlan {
 public:
  GatherLogitsPlan(const LossProblem& problem, RankContext context, const Steps& steps)
      : problem_(problem),
        context_(context),
        steps_(steps),
        shard_(steps.shard_vocab(problem.vocab, problem.grid.tp, context.tp.rank())),
        order_(copy_positions(context.device,
                              steps.gather_order(problem.batch, steps, problem.grid.cp))),
        received_(context.device, rank_by_rank(problem, steps), problem),
        pack_(context.device, steps.shift(problem.batch), problem),
        logits_(context.device.allocate(gathered_bytes(problem), "logits_gathered",
                                        MemorySpace::device)),
        teacher_(context.device.allocate(gathered_teacher_bytes(problem), "teacher_gathered",
                                         MemorySpace::device)),
        mask_(context.device.allocate(gathered_mask_bytes(problem), "sampling_mask_gathered",
                                      MemorySpace::device)),
        chunks_(TeacherProduct::chunks(problem)),
        made_teacher_(problem, context, steps, received_, TeacherProduct::chunk_rows(problem),
                      true),
        statistics_(context.device, problem, steps, problem.rows()),
        outputs_(context.device, problem.token_columns() * problem.rows(), "outputs_received"),
        pack_grad_(context.device, problem, problem.rows()),
        local_grad_(context.device, problem, problem.local_rows()),
        objective_(context.device, problem, steps) {}

  static std::size_t gathered_bytes(const LossProblem& problem) {
    return problem.grid.cp > 1 ? static_cast<std::size_t>(problem.logits_bytes() * problem.grid.cp)
                               : 0;
  }

  static std::size_t gathered_teacher_bytes(const LossProblem& problem) {
    return problem.grid.cp > 1
               ? static_cast<std::size_t>(problem.teacher_logits_bytes() * problem.grid.cp)
               : 0;
  }

  static std::size_t gathered_mask_bytes(const LossProblem& problem) {
    return problem.grid.cp > 1 ? static_cast<std::size_t>(problem.mask_bytes() * problem.grid.cp)
                               : 0;
  }

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    LossInputs gathered_inputs = inputs;
    if (problem_.grid.cp > 1) {
      const auto elements = static_cast<std::size_t>(problem_.local_rows() * shard_.width);
      context_.cp.all_gather(inputs.logits, logits_.data(), elements, problem_.dtype);
      gathered_inputs.logits = logits_.data();
      if (problem_.has_teacher() && !problem_.makes_teacher()) {
        context_.cp.all_gather(inputs.teacher, teacher_.data(), elements, problem_.teacher.dtype);
        gathered_inputs.teacher = teacher_.data();
      }
      if (problem_.sampling.has_mask) {
        context_.cp.all_gather(inputs.kept, mask_.data(),
                               static_cast<std::size_t>(problem_.mask_bytes()), DType::u8);
        gathered_inputs.kept = reinterpret_cast<const std::uint64_t*>(mask_.data());
      }
    }
    made_teacher_.gather(inputs);
    const LogitsRows rows = logits_rows(problem_, shard_, gathered_inputs, received_);
    const TokenOutputs gathered = columns_in(outputs_.span(), problem_, problem_.rows());
    const std::int64_t owned = run_statistics(rows, gathered);
    // Every CP rank saw all rows; only one counts the labels.
    outputs.owned_labels = context_.cp.rank() == 0 ? owned : 0;
    scatter_columns(context_.device, outputs_.span(), problem_.rows(), 1, order_.data(), 0,
                    outputs.tokens);

    outputs.result =
        objective_.run(pack_.tokens(outputs.tokens, 0, problem_.rows()), pack_grad_.all());
  }

  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    const std::int64_t first = first_own_row();
    gather_gradients(context_.device, problem_.local_rows(), pack_grad_.all(),
                     order_.data() + first, 0, local_grad_.all());
    LogitsRows own = logits_rows(problem_, shard_, inputs, received_);
    own.rows = problem_.local_rows();
    own.targets = own.targets.from(first);
    own.valid += first;
    own.transforms = received_.transforms(first);
    own.teacher_transforms = received_.teacher_transforms(first);
    if (!problem_.makes_teacher()) {
      statistics_.select(0, problem_.rows());
      steps_.gradient(own, statistics_.softmax().from(first), local_grad_.from(0),
                      gradients.logits);
      return;
    }
    const std::int64_t row_bytes = shard_.width * problem_.element_bytes();
    for (const RowRange& chunk : chunks_) {
      LogitsRows rows = own.slice(chunk.begin, chunk.count);
      made_teacher_.make(first + chunk.begin, rows);
      statistics_.select(first + chunk.begin, chunk.count);
      steps_.gradient(rows, statistics_.softmax(), local_grad_.from(chunk.begin),
                      static_cast<std::byte*>(gradients.logits) + chunk.begin * row_bytes);
    }
  }

 private:
  /// Makes the statistics of all gathered rows, chunk by chunk for each rank if the teacher's
  /// logits are computed. Returns the number of valid targets that the shard owns.
  std::int64_t run_statistics(const LogitsRows& all, const TokenOutputs& out) {
    if (!problem_.makes_teacher()) {
      statistics_.select(0, problem_.rows());
      return statistics_.run(steps_, context_.tp, all, out);
    }
    std::int64_t owned = 0;
    for (int rank = 0; rank < problem_.grid.cp; ++rank) {
      for (const RowRange& chunk : chunks_) {
        const std::int64_t begin = rank * problem_.local_rows() + chunk.begin;
        LogitsRows rows = all.slice(begin, chunk.count);
        made_teacher_.make(begin, rows);
        statistics_.select(begin, chunk.count);
        owned += statistics_.run(steps_, context_.tp, rows, out.part(begin, chunk.count));
      }
    }
    return owned;
  }

  /// Returns the targets of the gathered rows, in the order in which the rows arrive.
  static ShiftedBatch rank_by_rank(const LossProblem& problem, const Steps& steps) {
    ShiftedBatch all;
    for (int rank = 0; rank < problem.grid.cp; ++rank) {
      all.append(steps.local_targets(problem.batch, steps, problem.grid.cp, rank));
    }
    return all;
  }

  std::int64_t first_own_row() const { return context_.cp.rank() * problem_.local_rows(); }

  const LossProblem& problem_;
  RankContext context_;
  const Steps steps_;
  VocabShard shard_;
  DeviceArray<std::int32_t> order_;
  RowTable received_;
  RowTable pack_;
  Buffer logits_;
  Buffer teacher_;
  Buffer mask_;
  std::vector<RowRange> chunks_;  // chunks of the rows of a rank
  TeacherProduct made_teacher_;
  ShardStatistics statistics_;
  FloatArray outputs_;
  GradientTable pack_grad_;
  GradientTable local_grad_;
  ObjectivePass objective_;
};

class GatherLogits final : public LossImplementation {
 public:
  GatherLogits(const Steps& steps, const ImplementationOptions& options) : steps_(steps) {
    require_known_options(options, {}, "cp_gather_logits");
  }

  ImplementationTraits describe() const override {
    return {"cp_gather_logits", "gathers the logits over CP, then computes on full sequences",
            LogprobScope::pack, steps_.serial_adds};
  }

  Cost cost(const LossProblem& problem) const override {
    const std::int64_t rows = problem.rows();
    const std::int64_t local = problem.local_rows();
    Cost cost;
    cost.plan.workspace_bytes =
        static_cast<std::int64_t>(GatherLogitsPlan::gathered_bytes(problem) +
                                  GatherLogitsPlan::gathered_teacher_bytes(problem) +
                                  GatherLogitsPlan::gathered_mask_bytes(problem)) +
        2 * RowTable::bytes(problem, rows) + kPositionBytes * rows +
        TeacherProduct::bytes(problem, TeacherProduct::chunk_rows(problem), true) +
        ShardStatistics::bytes(problem, rows) + kFloatBytes * problem.token_columns() * rows +
        GradientTable::bytes(problem, rows + local) + ObjectivePass::bytes(problem);
    cost.forward.workspace_bytes = cost.backward.workspace_bytes = cost.plan.workspace_bytes;
    const std::int64_t merges =
        problem.makes_teacher() ? problem.grid.cp * std::ssize(TeacherProduct::chunks(problem)) : 1;
    ShardStatistics::add_merges(problem, rows, merges, Exchange::one, cost.forward.tp);
    add_logits_traffic(problem, cost);
    TeacherProduct::add_gather(problem, cost.forward, true);
    TeacherProduct::add_flops(problem, rows, cost.forward);
    TeacherProduct::add_flops(problem, local, cost.backward);
    if (problem.grid.cp > 1) {
      cost.forward.cp.add(Collective::all_gather, 1, problem.logits_bytes());
      if (problem.has_teacher() && !problem.makes_teacher()) {
        cost.forward.cp.add(Collective::all_gather, 1, problem.teacher_logits_bytes());
      }
      if (problem.sampling.has_mask) {
        cost.forward.cp.add(Collective::all_gather, 1, problem.mask_bytes());
      }
      // Bytes of each rank's rows, which are read, written to the gathered tensor, and read from
      // there.
      const std::int64_t own =
          problem.logits_bytes() + problem.mask_bytes() + problem.teacher_logits_bytes();
      cost.forward.read_bytes = own + problem.grid.cp * cost.forward.read_bytes;
      cost.forward.cached_read_bytes *= problem.grid.cp;
      cost.forward.written_bytes += problem.grid.cp * own;
      cost.forward.exponentials *= problem.grid.cp;
    }
    return cost;
  }

  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<GatherLogitsPlan>(problem, context, steps_);
  }

 private:
  Steps steps_;
};

const RegisteredStrategy registered_cp_gather_logits{
    "cp_gather_logits", [](const Steps& steps, const ImplementationOptions& options) {
      return std::make_unique<GatherLogits>(steps, options);
    }};

}  // namespace
}  // namespace lossgrid
