// SPDX-License-Identifier: Apache-2.0
// `Problem`: everything about one batch that does not depend on the grid. It comes from a case
// (made from its seed) or from a bundle, and is laid out for a grid on demand: same tensors on
// every grid.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "harness/comm/process_grid.h"
#include "harness/problem/batch/packed_batch.h"
#include "harness/problem/batch/padding.h"
#include "harness/problem/batch/row_terms.h"
#include "harness/problem/case/case_spec.h"
#include "harness/problem/values/logit_transform.h"
#include "harness/problem/values/logits_source.h"
#include "harness/problem/values/projection.h"
#include "harness/problem/values/sampling_mask.h"

namespace lossgrid {

/// A problem that was made from a case.
struct FromCase {
  std::string text;  // format_case of its spec
  bool operator==(const FromCase&) const = default;
};

/// A problem that was read from a bundle.
struct FromBundle {
  std::string path;
  bool operator==(const FromBundle&) const = default;
};

using ProblemSource = std::variant<FromCase, FromBundle>;

/// Returns the name of a source in messages: --case "TEXT", or the path of the bundle.
std::string describe(const ProblemSource& source);

/// One batch and its denominators. S sequences, T tokens, V ids, H hidden.
struct Problem {
  CaseSpec spec;  // for a bundle: its objective, vocab, dtype and padding
  ProblemSource source;

  std::vector<std::int64_t> lengths;      // [S]
  std::vector<std::int64_t> cu_seqlens;   // [S + 1]
  std::vector<std::int32_t> input_ids;    // [T]
  std::vector<std::uint8_t> token_mask;   // [T]
  std::vector<std::uint8_t> sample_mask;  // [S]
  Denominators denominators;
  TokenInputs inputs;          // [T] about each token, or empty; see objective_inputs.h
  std::vector<float> rewards;  // [S], or empty
  // [S] group of a sequence, as of the answers to one prompt, and the number of groups in the whole
  // batch; empty and 0: there are none. Set by set_groups.
  std::vector<std::int64_t> groups;
  std::int64_t group_count = 0;
  std::vector<std::int64_t> group_tokens;  // [S] valid tokens of the group of a sequence, or empty
  std::vector<float> temperatures;         // [S], or empty: temperatures by sequence
  // The logits that the softmax is of, transformed.
  std::shared_ptr<const LogitsSource> logits;
  // The logits that implementations are given, or hidden x weight; null: those above. Set by
  // apply_transform.
  std::shared_ptr<const LogitsSource> untransformed = nullptr;
  // Hidden states and weight that `logits` are made of; null for a problem that starts from logits.
  // Parts of a batch share that of the whole: row t of a part is its row whole_row(t).
  std::shared_ptr<const Projection> projection;
  // True if rows of true tokens that predict nothing valid are poisoned with spec.poison; those of
  // a bundle keep the values of the file. Padding is poisoned in any case.
  bool poison_true_rows = false;
  // Padding that an implementation needs beside spec.pad_multiple and spec.bin_multiple. It moves
  // rows of a pack and nothing else: truths and outputs stand by token.
  Padding padding;

  // Places of the sequences and rows of a part (partition.h) in the whole batch; empty: it is the
  // whole.
  std::vector<std::int64_t> origin_sequence;  // [S]
  std::vector<std::int64_t> origin_row;       // [T]
  MicrobatchPlace microbatch;

  // The kept sets of rows, those of the whole batch: row t of a part is its row whole_row(t); null:
  // all ids. Then `logits` are -inf outside of them. Set by set_sampling_mask.
  std::shared_ptr<const SamplingMask> sampling_mask = nullptr;

  // Logits of a teacher, row by row beside the student's, as they are given, and divided by the
  // temperatures; null unless the objective has a divergence from it. -inf outside of its top k.
  std::shared_ptr<const LogitsSource> given_teacher = nullptr;
  std::shared_ptr<const LogitsSource> teacher = nullptr;
  DType teacher_dtype = DType::f32;
  bool teacher_sends_logprobs = false;  // logarithms of probabilities, which nothing divides
  // Hidden states and weight of the teacher, whose product given_teacher is; null where its logits
  // are given. Parts share that of the whole, as `projection`.
  std::shared_ptr<const Projection> teacher_projection = nullptr;

  const LogitsSource& given_logits() const { return untransformed ? *untransformed : *logits; }
  /// Returns the transform of the case, and the one of a row.
  LogitTransform transform() const;
  TrueRowTransform transform_of_row(std::int64_t t) const;
  /// Returns the transform of the teacher's logits.
  LogitTransform teacher_transform() const;
  /// Returns what divides the logits of row t: the temperature, and that of its sequence.
  double temperature_of_row(std::int64_t t) const;

  /// Returns a, where row t is about token t + a.
  int ahead() const { return tokens_ahead(spec.head); }
  std::int64_t tokens() const { return cu_seqlens.back(); }
  std::int64_t whole_sequence(std::int64_t i) const {
    return origin_sequence.empty() ? i : origin_sequence[i];
  }
  std::int64_t whole_row(std::int64_t t) const { return origin_row.empty() ? t : origin_row[t]; }
  std::int64_t sequences() const { return static_cast<std::int64_t>(lengths.size()); }
  /// Returns the sequence that token t belongs to.
  std::int64_t sequence_of(std::int64_t t) const;

  /// Returns [T] the id that row t predicts (the next token of its sequence), -1 at last tokens; of
  /// scores the id of the row's own token.
  std::vector<std::int32_t> row_targets() const;
  /// True if the target of row t is one that the sampling mask leaves out: then z of it is -inf.
  bool leaves_out_target(std::int64_t t, std::int32_t target) const;
  /// True if such targets have the log-probability 0.
  bool zeroes_filtered_targets() const {
    return sampling_mask != nullptr && spec.filtered_targets == FilteredTargets::zero;
  }
  /// Returns [T] 1 where row t predicts a target that is trained on, else 0.
  std::vector<std::uint8_t> row_valid() const;
};

/// Makes the lengths, ids, masks and logits of a case, or hidden states and weight that the logits
/// are made of. Inputs of the objective are drawn later, from the log-probabilities
/// (objective_inputs.h). Throws bad_input (sizes that overflow, bits that do not fit the lengths,
/// vocab < 1, keys of the lm_head without hidden > 0, ...).
Problem make_problem(const CaseSpec& spec);

/// Puts the transform of rows on problem.logits, if there is one: that of the case, with
/// problem.temperatures.
void apply_transform(Problem& problem);

/// Keeps the ids of `mask` in every row, and masks the targets that it leaves out, unless the case
/// keeps them; then denominators are counted anew.
void set_sampling_mask(Problem& problem, std::shared_ptr<const SamplingMask> mask);

/// Sets problem.given_teacher and what follows of it.
void set_teacher(Problem& problem, std::shared_ptr<const LogitsSource> given, DType dtype);

/// Sets problem.teacher_projection, and as its product the teacher.
void set_teacher(Problem& problem, std::shared_ptr<const Projection> projection);

/// Returns the dtype of the teacher of a case: bf16 for cases in bf16, else float32.
DType teacher_dtype_of(const CaseSpec& spec);

/// Gives a problem of a case its teacher: logits of the case's regime that are drawn apart from the
/// student's, or with `sends_logprobs` the log-softmax of these, or hidden states and weight whose
/// product lies in the regime, in `normal` where no product does.
void draw_teacher(Problem& problem, bool sends_logprobs = false);

/// Throws bad_input for a problem without a teacher, or without one that the divergence takes.
void require_teacher(const Problem& problem, const Divergence& divergence = {});

/// Returns the lengths of a case: explicit, or drawn from its distribution.
std::vector<std::int64_t> case_lengths(const CaseSpec& spec);

/// Returns the places of the tokens in the pack on this grid, padded as the grid, the case and the
/// implementation need. Throws bad_input for lengths beyond 2^31-1 tokens.
PackedLayout layout_of(const Problem& problem, const Grid& grid);

/// Returns the problem for an implementation that needs `padding`; `problem` itself where it has
/// that already. Throws bad_input when least common multiples overflow.
std::shared_ptr<const Problem> padded_for(std::shared_ptr<const Problem> problem,
                                          const Padding& padding);

/// Returns the batch as an implementation on this grid is given it. In CuMode::padded_lengths token
/// arrays have padded length; pads hold arbitrary valid ids (from the seed), mask 0 and poisoned
/// inputs (0 for Poison::none).
PackedBatch pack(const Problem& problem, const Grid& grid);

/// Throws bad_input when the grid cannot hold the problem: tp > vocab, padding to what the grid
/// needs beyond 2^31-1 tokens, a shard of logits, hidden states or weight beyond 2^62 elements. A
/// part of a problem that fits, fits.
void require_fits(const Problem& problem, const Grid& grid);

/// Writes this rank's logits shard [T_c, width] in the problem's dtype, row-major: true rows from
/// the source; rows that predict nothing or nothing valid (when poison_true_rows), padding rows and
/// padding columns are poisoned with spec.poison (none: true values in masked rows, plausible
/// finite values in pads). `out` has T_c * width elements.
void fill_logits_shard(const Problem& problem, const Grid& grid, int tp_rank, int cp_rank,
                       void* out);

/// Writes this rank's shard of the teacher's logits [T_c, width] in their dtype, in the same way.
void fill_teacher_shard(const Problem& problem, const Grid& grid, int tp_rank, int cp_rank,
                        void* out);

/// Writes this rank's bits of the sampling mask, mask_words(width) words a row: bit k is that of
/// column k of the shard. Bits of padding columns are 1, rows that are not to be read keep nothing.
void fill_mask_shard(const Problem& problem, const Grid& grid, int tp_rank, int cp_rank,
                     std::uint64_t* out);

}  // namespace lossgrid
