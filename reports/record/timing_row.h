// SPDX-License-Identifier: Apache-2.0
// Rows of a timing record: samples of a phase and their summary, ceilings of the machine, and
// all-reduce. Absolute times hold for the machine and its load at that moment; ratios of samples of
// the same round are what can be compared. Samples are kept, of the slowest rank and of every rank,
// so that readers of a report can summarise them another way.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/record/field.h"
#include "reports/record/timing_status.h"

namespace lossgrid {

struct TimeSummary {
  std::vector<std::int64_t> samples_ns;
  std::int64_t median_ns = 0;
  std::int64_t p20_ns = 0;
  std::int64_t p80_ns = 0;
  double stderr_ratio = 0;
};

template <typename A>
void fields(A& a, TimeSummary& time) {
  a("samples_ns", time.samples_ns,
    "Samples of the slowest rank, in the order of the rounds; none is left out.",
    {.minimum = 1, .min_items = 2, .varies = true});
  a("median_ns", time.median_ns, "Median of the samples.", {.minimum = 1, .varies = true});
  a("p20_ns", time.p20_ns, "20 % quantile, by linear interpolation.",
    {.minimum = 1, .varies = true});
  a("p80_ns", time.p80_ns, "80 % quantile, by linear interpolation.",
    {.minimum = 1, .varies = true});
  a("stderr_ratio", time.stderr_ratio,
    "Standard error of the median / median (McKean and Schrader).",
    {.infinite = true, .varies = true});
}

/// Times of one rank. Medians of their own: the parts need not add up to the whole.
struct RankTime {
  std::int64_t rank = 0;
  std::int64_t median_ns = 0;
  std::int64_t communication_ns = 0;
  std::int64_t kernel_ns = 0;
  std::vector<std::int64_t> samples_ns;
  std::vector<std::int64_t> communication_samples_ns;
};

template <typename A>
void fields(A& a, RankTime& time) {
  a.record("rank_time", "Times of one rank. Medians of their own.");
  a("rank", time.rank, "World rank.");
  a("median_ns", time.median_ns, "Median of its samples.");
  a("communication_ns", time.communication_ns,
    "Inside of collectives, waiting for other ranks included.");
  a("kernel_ns", time.kernel_ns, "Outside of them.");
  a("samples_ns", time.samples_ns, "In the order of the rounds.", {.minimum = 1});
  a("communication_samples_ns", time.communication_samples_ns, "Inside of collectives.");
}

/// The rank with the longest kernel time.
struct Straggler {
  std::int64_t rank = 0;
  std::int64_t kernel_ns = 0;
  std::int64_t excess_ns = 0;
};

template <typename A>
void fields(A& a, Straggler& straggler) {
  a("rank", straggler.rank, "World rank.");
  a("kernel_ns", straggler.kernel_ns, "Its kernel time.");
  a("excess_ns", straggler.excess_ns, "Difference to the median of the other ranks.");
}

/// Time of a phase by the model of a machine (run.environment.machine), and what bounds it.
struct PredictedTime {
  std::int64_t time_ns = 0;
  std::int64_t collectives_ns = 0;
  std::string bound_by;
  std::int64_t busiest_cp_rank = 0;

  bool operator==(const PredictedTime&) const = default;
};

template <typename A>
void fields(A& a, PredictedTime& predicted) {
  a("time_ns", predicted.time_ns, "Of the slowest rank.");
  a("collectives_ns", predicted.collectives_ns, "The part of it inside of collectives.");
  a("bound_by", predicted.bound_by, "The longest part.",
    {.one_of = "starts rows products memory exponentials cached collectives"});
  a("busiest_cp_rank", predicted.busiest_cp_rank,
    "CP rank with the most rows that predict a token, the first of equals.");
}

/// One phase of one implementation. Rates are those of all ranks together.
struct TimingRow {
  std::string implementation;
  std::string phase;
  TimingStatus status = TimingStatus::timed;
  std::string reason;
  TimeSummary time;
  std::optional<double> speedup;
  std::int64_t rank_bytes = 0;  // 0: not known
  std::int64_t rank_flops = 0;  // 0: not known, or none
  std::optional<double> bytes_per_second;
  std::optional<double> flops_per_second;
  std::optional<double> useful_flops_per_second;  // of forward_backward
  double tokens_per_second = 0;
  std::string ceiling;  // empty when the cost model does not have the bytes it moves
  std::optional<double> ceiling_ratio;
  bool ceiling_judged = false;
  std::optional<double> communication_ratio;
  std::int64_t kernel_launches = 0;
  std::int64_t host_synchronisations = 0;
  std::vector<RankTime> rank_times;
  std::optional<Straggler> straggler;  // with more than one rank, and a communication_ratio
  std::optional<PredictedTime> predicted = {};  // with --machine
};

template <typename A>
void fields(A& a, TimingRow& row) {
  a.record("timing_row", "One phase of one implementation.");
  a("implementation", row.implementation, "Name, with its options as NAME:option=value.",
    {.nonempty = true});
  a("phase", row.phase,
    "Forward and backward are parts of one iteration, forward_backward is another.",
    {.one_of = "forward backward forward_backward"});
  a("status", row.status, "failed: outputs of the last timed iteration are wrong.",
    {.one_of = "timed unstable above_ceiling failed"});
  a("reason", row.reason, "One line; empty when timed.");
  fields(a, row.time);
  a("speedup", row.speedup,
    "Median over rounds of the baseline's sample / sample of the same round; null without "
    "baseline.",
    {.varies = true,
     .column = {.title = "speedup",
                .unit = Unit::factor,
                .about = "Time of the baseline / time.",
                .place = 4,
                .importance = 7}});
  a("rank_bytes", row.rank_bytes,
    "Bytes read and written by one rank, by the cost model; null when it does not have them.",
    {.minimum = 1, .null = true});
  a("rank_flops", row.rank_flops,
    "Operations of one rank's matrix products, recomputation included; null when there are none.",
    {.minimum = 1, .null = true});
  a("bytes_per_second", row.bytes_per_second, "Bytes of all ranks in the median time.",
    {.varies = true,
     .column = {.title = "moved",
                .unit = Unit::bytes_per_second,
                .about = "Bytes of all ranks by the cost model in the median time.",
                .place = 1,
                .importance = 4,
                .in_summaries = false}});
  a("flops_per_second", row.flops_per_second,
    "Operations of all ranks in the median time, recomputation included.",
    {.varies = true,
     .column = {.title = "computed",
                .unit = Unit::flops_per_second,
                .place = 1,
                .importance = 4,
                .in_summaries = false}});
  a("useful_flops_per_second", row.useful_flops_per_second,
    "useful_flops in the median time of forward_backward; else null.", {.varies = true});
  a("tokens_per_second", row.tokens_per_second, "Tokens in the median time.",
    {.varies = true,
     .column = {.title = "tokens/s",
                .unit = Unit::per_second,
                .place = 3,
                .importance = 2,
                .in_summaries = false}});
  a("ceiling", row.ceiling,
    "Ceiling that bounds the phase; null when the cost model does not have the bytes it moves.",
    {.one_of = "read copy update read+copy read+update gemm", .null = true});
  a("ceiling_ratio", row.ceiling_ratio,
    "Median over rounds of the time at the ceiling / sample of the same round.",
    {.varies = true,
     .column = {.title = "ceiling",
                .unit = Unit::percent,
                .about = "Share of what the machine reaches.",
                .note = "ceiling",
                .place = 2,
                .importance = 6,
                .better = Direction::higher}});
  a("ceiling_judged", row.ceiling_judged,
    "It touches more than 4 last-level caches: above 1.02 it is above_ceiling.", {.varies = true});
  a("communication_ratio", row.communication_ratio,
    "Share of the time of all ranks, by medians; null of implementations from outside, whose "
    "collectives are not seen while time is taken: their communication_ns are 0 and kernel_ns are "
    "the whole time.",
    {.maximum = 1,
     .varies = true,
     .column = {.title = "comm",
                .unit = Unit::percent,
                .about = "Share of the time of all ranks inside of collectives.",
                .place = 5,
                .importance = 1,
                .in_summaries = false}});
  a("rank_times", row.rank_times, "By rank.", {.min_items = 1, .varies = true});
  a("straggler", row.straggler,
    "The rank with the longest kernel time; null with one rank, and of implementations from "
    "outside.",
    {.varies = true});
  a("predicted", row.predicted,
    "Time by the model of the machine that --machine names; without it there is none.",
    {.left_out = !row.predicted});
  a("kernel_launches", row.kernel_launches,
    "Kernels and products that the host gave to a GPU in the last sample, of the rank with the "
    "most; 0 on the processor.");
  a("host_synchronisations", row.host_synchronisations,
    "Times that the host waited for a GPU in it, the wait for its end included, of the rank with "
    "the most.");
}

/// An implementation that cannot take the case.
struct SkippedTiming {
  std::string implementation;
  std::string reason;
};

template <typename A>
void fields(A& a, SkippedTiming& skipped) {
  a("implementation", skipped.implementation, "Name, with its options.", {.nonempty = true});
  a("reason", skipped.reason, "Reason why it cannot.", {.nonempty = true});
}

/// Rate that the machine reaches with all ranks at once, at the sizes of the case.
struct CeilingRow {
  std::string name;
  TimeSummary time;
  std::int64_t rank_bytes = 0;  // or 0
  std::int64_t rank_flops = 0;  // or 0
  double rate_per_second = 0;
};

template <typename A>
void fields(A& a, CeilingRow& ceiling) {
  a.record("timing_ceiling",
           "Memory that is only read, copied or changed, or a product of the LM head: all ranks at "
           "once.");
  a("name", ceiling.name, "Kind of the ceiling.",
    {.one_of = "read copy update gemm_logits gemm_hidden gemm_weight gemm_logits_bf16 "
               "gemm_hidden_bf16 gemm_weight_bf16"});
  fields(a, ceiling.time);
  a("rank_bytes", ceiling.rank_bytes, "Bytes moved by a rank.", {.minimum = 1, .null = true});
  a("rank_flops", ceiling.rank_flops, "Operations made by a rank.", {.minimum = 1, .null = true});
  a("rate_per_second", ceiling.rate_per_second,
    "Bytes or operations of all ranks in the median time.", {.varies = true});
}

struct AllReduceRow {
  std::string group;
  std::int64_t ranks = 0;
  double latency_ns = 0;
  double bytes_per_second = 0;
};

template <typename A>
void fields(A& a, AllReduceRow& row) {
  a("group", row.group, "Axis of the grid.", {.one_of = "tp cp"});
  a("ranks", row.ranks, "Size of the group.", {.minimum = 2});
  a("latency_ns", row.latency_ns, "Time for 4 bytes.", {.varies = true});
  a("bytes_per_second", row.bytes_per_second, "Rate for 1 MiB.", {.varies = true});
}

}  // namespace lossgrid
