// SPDX-License-Identifier: Apache-2.0
// `Projection`: hidden states, weight and bias of the lm_head, for problems that start from them:
// logits = (hidden weight^T + bias) / temperature. Those of a case are drawn from its seed, those
// of a bundle read from the file. Logits are known in float64, not rounded: implementations make
// their own, in float32. A bias is one more column of the weight, whose hidden states are all 1.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/comm/process_grid.h"
#include "harness/core/dtype.h"
#include "harness/problem/values/logits_source.h"

namespace lossgrid {

struct Problem;

/// Factors of the logits of one batch.
struct Projection {
  std::int64_t tokens = 0;    // T
  std::int64_t vocab = 0;     // V
  std::int64_t size = 0;      // H
  std::vector<float> hidden;  // [T, factors()]
  std::vector<float> weight;  // [V, factors()] for every layout of shards
  double temperature = 1;     // divisor_of_product of the case's transform
  // Dtypes in which they are given, f32 or bf16; the values above are exact for both.
  DType hidden_dtype = DType::f32;
  DType weight_dtype = DType::f32;
  bool has_bias = false;
  DType bias_dtype = DType::f32;

  /// Returns the factors of a logit: H, and with a bias one more, the last of a row.
  std::int64_t factors() const { return size + (has_bias ? 1 : 0); }
  const float* hidden_row(std::int64_t token) const { return hidden.data() + token * factors(); }
  const float* weight_row(std::int64_t id) const { return weight.data() + id * factors(); }
  /// Returns the bias of an id. Requires has_bias.
  float bias(std::int64_t id) const { return weight_row(id)[size]; }
};

/// Makes hidden states, weight and bias of a case with hidden > 0, rounded to its dtype, whose
/// logits (over the temperature) lie in its value regime: pure functions of (seed, token, place)
/// and (seed, id, place). A shift of logits is in the bias if there is one: a large bias. `ids` [T]
/// holds the id of each row, `targets` [T] the one that it predicts, -1 for none. Throws bad_input
/// for a regime that no product has (as masked_vocab), for one that needs H >= 2, for f64, and for
/// one-hot hidden states with H != V or another regime than normal.
std::shared_ptr<const Projection> make_projection(const CaseSpec& spec,
                                                  const std::vector<std::int32_t>& ids,
                                                  const std::vector<std::int32_t>& targets);

/// True if hidden states and a weight can make logits of this regime.
bool has_projection(Values values);

/// Returns the reason for which no hidden states and weight make the logits of a case, one line
/// that names the keys; nullopt where some do.
std::optional<std::string> projection_refusal(const CaseSpec& spec);

/// Returns the logits of row t and id v: the dot product of hidden[t] and weight[v], the bias
/// included, over the temperature, in float64. Its error bound of a logit z that is made in
/// float32, in any order of additions, is
///   4 u32 |hidden[t]| |weight[v]| / temperature + 3 sqrt(H) u32 |z|   (Euclidean norms).
/// Every addition rounds by up to u32 times the partial sum, at random (Higham and Mary, "A new
/// approach to probabilistic rounding error analysis", 2019). Products of random signs have partial
/// sums of sqrt(k), in all about 0.4 u32 |hidden[t]| |weight[v]|. Products that share a sign, or
/// one that dominates, have partial sums of up to |z|, in all up to 0.6 sqrt(H) u32 |z|. The bound
/// is at least five of these deviations, which covers the largest of many elements.
std::shared_ptr<const LogitsSource> make_projected_logits(
    std::shared_ptr<const Projection> projection);

/// Writes this rank's hidden states [hidden_rows, H] in the problem's dtype: rows of the CP rank in
/// pack order, with SP part `tp_rank` of tp equal ones. Poisoned like logits: rows that predict
/// nothing valid (when poison_true_rows) and padding rows. Requires problem.projection, as all
/// below.
void fill_hidden_shard(const Problem& problem, const Grid& grid, int tp_rank, int cp_rank,
                       void* out);

/// Writes this rank's vocab shard of the weight in the problem's dtype, [V_t, H] or [H, V_t] by the
/// case's layout. Padding ids are poisoned.
void fill_weight_shard(const Problem& problem, const Grid& grid, int tp_rank, void* out);

/// Write the same of problem.teacher_projection, in the dtype of the teacher: [hidden_rows, N] and
/// [V_t, N].
void fill_teacher_hidden_shard(const Problem& problem, const Grid& grid, int tp_rank, int cp_rank,
                               void* out);
void fill_teacher_weight_shard(const Problem& problem, const Grid& grid, int tp_rank, void* out);

/// Writes this rank's vocab shard of the bias in the problem's dtype, [V_t]. Padding ids are
/// poisoned.
void fill_bias_shard(const Problem& problem, const Grid& grid, int tp_rank, void* out);

/// Writes the initial values of a gradient of the weight (of this layout, float32), which the loss
/// adds its own to: 0, or with a tied embedding the gradient of the embedding (0 for padding ids).
void fill_weight_gradient(const Problem& problem, const Grid& grid, int tp_rank, float* out);

/// Writes the gradient of a tied embedding for the row of one id, [H].
void embedding_gradient(const Problem& problem, std::int64_t id, std::span<float> out);

}  // namespace lossgrid
