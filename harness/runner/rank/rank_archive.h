// SPDX-License-Identifier: Apache-2.0
// Lists of the fields of a rank's findings (harness/core/archive.h): ranks of an MPI job send them
// to each other as bytes.
#pragma once

#include "harness/core/archive.h"
#include "harness/runner/rank/rank_trial.h"

namespace lossgrid {

template <typename A>
void fields(A& archive, ElementPlace& at) {
  archive(at.rank, at.sequence, at.token, at.vocab_id);
}

template <typename A>
void fields(A& archive, BiasSums& sums) {
  archive(sums.out_truth, sums.rounded_truth, sums.truth_squared, sums.computation_squared,
          sums.shared);
}

template <typename A>
void fields(A& archive, FailedElements& failed) {
  archive(failed.count, failed.nan, failed.infinite, failed.zero, failed.roundoff,
          failed.bits_compared, failed.bits_of_bf16, failed.got_squared, failed.got_want,
          failed.want_squared, failed.nan_rows);
}

template <typename A>
void fields(A& archive, MistakeTally& tally) {
  archive(tally.tried, tally.fits);
}

template <typename A>
void fields(A& archive, FailedLogprobs& failed) {
  archive(failed.count, failed.not_written, failed.positive, failed.nan_rows,
          failed.smallest_difference, failed.largest_difference, failed.differences,
          failed.mistakes);
}

template <typename A>
void fields(A& archive, FailedEntropies& failed) {
  archive(failed.count, failed.mistakes);
}

template <typename A>
void fields(A& archive, GradientFindings& found) {
  archive(found.elements, found.failed, found.bias, found.trained_rows, found.not_written,
          found.nonzero_masked, found.nonzero_padding, found.first_misplaced, found.row_sums,
          found.row_sum_bounds);
}

template <typename A>
void fields(A& archive, LinearFindings& found) {
  archive(found.elements, found.l2, found.failed, found.bias, found.error_squared,
          found.want_squared, found.not_written, found.nonzero_masked, found.first_misplaced);
}

template <typename A>
void fields(A& archive, Metric& metric) {
  archive(metric.reduction, metric.amount, metric.count);
}

template <typename A>
void fields(A& archive, ObjectiveResult& result) {
  archive(result.loss, result.metrics);
}

template <typename A>
void fields(A& archive, CollectiveCount& count) {
  archive(count.calls, count.payload_bytes);
}

template <typename A>
void fields(A& archive, CollectiveCounts& counts) {
  archive(counts.by_operation);
}

template <typename A>
void fields(A& archive, RankCounts& counts) {
  archive(counts.tp, counts.cp);
}

template <typename A>
void fields(A& archive, PhaseCost& cost) {
  archive(cost.workspace_bytes, cost.tp, cost.cp, cost.flops, cost.read_bytes, cost.written_bytes,
          cost.cached_read_bytes, cost.exponentials, cost.gradients, cost.kept_exponentials);
}

template <typename A>
void fields(A& archive, Cost& cost) {
  archive(cost.plan, cost.forward, cost.backward, cost.chunks);
}

template <typename A>
void fields(A& archive, Invariant& invariant) {
  archive(invariant.name, invariant.status, invariant.detail);
}

template <typename A>
void fields(A& archive, DriverMemory& memory) {
  archive(memory.used_bytes, memory.pool_bytes);
}

template <typename A>
void fields(A& archive, PhaseMemory& memory) {
  archive(memory.phase, memory.peak_bytes, memory.by_tag_bytes, memory.end_bytes,
          memory.allocations, memory.driver);
}

template <typename A>
void fields(A& archive, RowTraffic& traffic) {
  archive(traffic.read_bytes, traffic.written_bytes);
}

template <typename A>
void fields(A& archive, DeviceWork& work) {
  archive(work.launches, work.synchronisations, work.flops, work.rows);
}

template <typename A>
void fields(A& archive, StageTimes& times) {
  archive(times.ns);
}

template <typename A>
void fields(A& archive, MeasuredCalls& calls) {
  archive(calls.group, calls.operation, calls.calls, calls.payload_bytes);
}

template <typename A>
void fields(A& archive, PhasePrediction& predicted) {
  archive(predicted.peak_bytes, predicted.calls);
}

template <typename A>
void fields(A& archive, ElementRange& range) {
  archive(range.begin, range.end);
}

template <typename A>
void fields(A& archive, StepReport& step) {
  archive(step.metrics, step.held);
}

template <typename A>
void fields(A& archive, ReplicaFindings& found) {
  archive(found.dp, found.cp, found.products, found.different, found.first_different, found.without,
          found.uneven, found.holders, found.first_misplaced);
}

template <typename A>
void fields(A& archive, SequenceParts& parts) {
  archive(parts.products, parts.got, parts.got_squared, parts.valid_tokens);
}

template <typename A>
void fields(A& archive, SliceParts& parts) {
  archive(parts.dp, parts.cp, parts.part_squared, parts.got_part, parts.got_squared);
}

template <typename A>
void fields(A& archive, PhaseMeasurement& measured) {
  archive(measured.time_ns, measured.peak_bytes, measured.calls, measured.changed_inputs,
          measured.evaluation, measured.predicted);
}

template <typename A>
void fields(A& archive, PackFindings& found) {
  archive(found.result, found.owned_labels, found.predicted, found.checks, found.failed_logprobs,
          found.failed_entropies, found.grad_logits, found.grad_hidden, found.invariants,
          found.input_bytes, found.output_bytes, found.memory, found.counts, found.time_ns,
          found.device_work, found.measured, found.step, found.output_bits, found.own_logprob_bits,
          found.gradient_bits, found.same_bits_again, found.logprobs, found.entropy,
          found.row_gradient);
}

template <typename A>
void fields(A& archive, RankResult& rank) {
  archive(rank.result, rank.checks, rank.result_bits, rank.packs, rank.peak_bytes, rank.batch_dp,
          rank.predicted_batch_dp, rank.batch_pp, rank.predicted_batch_pp, rank.grad_weight,
          rank.grad_bias, rank.replicas, rank.sequences, rank.slices, rank.weight_gradient,
          rank.stages);
}

}  // namespace lossgrid
