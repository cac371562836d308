// SPDX-License-Identifier: Apache-2.0
// Diagnosis of a failed trial: sentences that name known mistakes which would explain its wrong
// numbers. A sentence states numbers and asks a question; it is no verdict. Without a known mistake
// that fits there is no sentence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/verify/checks/failed_elements.h"
#include "harness/verify/checks/shard_checks.h"
#include "harness/verify/diagnosis/failed_entropies.h"
#include "harness/verify/diagnosis/failed_logprobs.h"
#include "harness/verify/diagnosis/part_places.h"
#include "harness/verify/diagnosis/replica_sentences.h"
#include "harness/verify/diagnosis/scale_suspects.h"
#include "harness/verify/diagnosis/sequence_parts.h"
#include "harness/verify/diagnosis/slice_parts.h"

namespace lossgrid {

/// Findings about one gradient on one rank in one microbatch.
struct GradientPart {
  PartPlace place;
  BiasSums sums;
  FailedElements failed;
  std::int64_t trained_rows = 0;  // rows that take part in the loss; 0: unknown
};

struct GradientFacts {
  std::string name;          // "grad_logits"
  bool failed = false;       // any check of the gradient failed
  bool bias_failed = false;  // the bias check of all elements together failed
  bool not_written = false;  // any element was not written
  BiasSums sums = {};        // sums over all parts, with copies counted once
  std::vector<GradientPart> parts = {};
};

struct LogprobPart {
  PartPlace place;
  FailedLogprobs failed;
};

struct EntropyPart {
  PartPlace place;
  FailedEntropies failed;
};

struct LossFacts {
  double got = 0;
  double want = 0;
};

/// Results of other trials of the same implementation, for the cause of a NaN.
struct NanTrials {
  bool without_poison = false;  // also NaN if masked rows hold plausible numbers
  bool second_size = false;     // also NaN if no rank lacks trained tokens or has padding
};

struct FailureFacts {
  TrialSizes sizes;
  std::optional<LossFacts> loss;  // nullopt unless the loss failed
  std::vector<LogprobPart> logprobs;
  std::vector<EntropyPart> entropies;
  std::vector<GradientFacts> gradients;
  std::vector<ReplicaFacts> replicas;      // of train steps that reduce gradients themselves
  std::optional<SequenceParts> sequences;  // of such a step's gradient, if it failed
  std::optional<SliceParts> slices;        // of such a gradient in slices
  std::vector<SequenceLoss> losses;        // of such a step's sequences, if the loss failed
  // Rows of the whole batch that take part in the loss and have -inf logits, ascending. Empty
  // unless there is a NaN.
  std::vector<std::int64_t> minus_inf_rows;
  std::vector<PartPlace> untrained = {};  // places without a trained token, on the first TP rank
  bool has_minus_inf_padding = false;     // padding columns of -inf, as a declaration demands
  std::optional<NanTrials> nan_trials = std::nullopt;  // nullopt: no other trials
};

/// Removes the loss or gradient `name`, for which a scale would be no cause.
void leave_out(const std::string& name, FailureFacts& facts);

/// True if there is a NaN in the loss, in log-probabilities or gradients.
bool has_nan(const FailureFacts& facts);

/// Conventions that an external implementation declares.
struct DeclaredWords {
  bool is_external = false;  // false: the implementation declares nothing
  bool returns_loss = false;
  ScaleFactor scale = {};
  bool may_sum_over_cp = true;  // gradient="summed_over_cp" is available and not declared
};

/// Returns sentences without a period, the most likely cause first. `second` has facts about the
/// same implementation on a case of other sizes, where it failed too; null without such facts. A
/// factor has a cause only if the same cause explains both cases. The sentences name the missing
/// declaration that would make an external implementation right.
std::vector<std::string> explain(const FailureFacts& facts, const FailureFacts* second = nullptr,
                                 const DeclaredWords& declared = {});

}  // namespace lossgrid
