// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/bundle/bundle_teacher.h"

#include <set>
#include <utility>

#include "harness/core/error.h"
#include "harness/problem/case/case_keys.h"
#include "harness/problem/values/topk_logits.h"

namespace lossgrid {
namespace {

/// Reads k distinct ids of every row [T, k] and checks their range.
std::vector<std::int32_t> read_topk_ids(const BundleTensors& tensors, const Problem& problem,
                                        std::int64_t k) {
  const std::vector<std::int64_t> ids = tensors.integers("teacher_topk_ids", {"I32"}, 2);
  std::vector<std::int32_t> read;
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    std::set<std::int64_t> of_row;
    for (std::int64_t at = t * k; at < (t + 1) * k; ++at) {
      const std::int64_t id = ids[static_cast<std::size_t>(at)];
      if (id < 0 || id >= problem.spec.vocab) {
        throw_bad_input("{}: id {} at row {}, column {}, must lie in [0, V = {})",
                        tensors.what("teacher_topk_ids"), id, t, at - t * k, problem.spec.vocab);
      }
      if (!of_row.insert(id).second) {
        throw_bad_input("{}: id {} at row {}, column {}, must hold each id once in a row",
                        tensors.what("teacher_topk_ids"), id, t, at - t * k);
      }
      read.push_back(static_cast<std::int32_t>(id));
    }
  }
  return read;
}

void read_teacher_logits(const BundleTensors& tensors, Problem& problem) {
  const TensorView view = tensors.require("teacher_logits", {"F32", "BF16"}, 2);
  tensors.require("teacher_logits", {view.dtype}, {problem.tokens(), problem.spec.vocab},
                  "[T, V] of the student");
  set_teacher(problem, make_bundle_logits(tensors.file(), "teacher_logits"),
              dtype_of_tensor(view.dtype));
}

/// Reads hidden states and weight, whose product makes the logits.
void read_teacher_hidden(const BundleTensors& tensors, Problem& problem) {
  const TensorView hidden = tensors.require("teacher_hidden", {"F32", "BF16"}, 2);
  const std::int64_t size = hidden.shape[1];
  tensors.require("teacher_hidden", {hidden.dtype}, {problem.tokens(), size}, "[T, N]");
  if (size < 1 || size > kMaxHidden) {
    throw_bad_input("{}: a hidden size of {}, must lie in [1, {}]", tensors.what("teacher_hidden"),
                    size, kMaxHidden);
  }
  const TensorView weight = tensors.require("teacher_weight", {"F32", "BF16"}, 2);
  tensors.require("teacher_weight", {weight.dtype}, {problem.spec.vocab, size},
                  "[V of the student, N]");
  Projection projection;
  projection.tokens = problem.tokens();
  projection.vocab = problem.spec.vocab;
  projection.size = size;
  projection.hidden = elements_as_float(hidden);
  projection.weight = elements_as_float(weight);
  projection.hidden_dtype = dtype_of_tensor(hidden.dtype);
  projection.weight_dtype = dtype_of_tensor(weight.dtype);
  set_teacher(problem, std::make_shared<const Projection>(std::move(projection)));
}

/// Reads logits at k ids of every row.
void read_teacher_topk(const BundleTensors& tensors, Problem& problem) {
  const std::int64_t tokens = problem.tokens();
  const std::int64_t k = tensors.require("teacher_topk_ids", {"I32"}, 2).shape[1];
  if (k < 1 || k > problem.spec.vocab) {
    throw_bad_input("{}: k = {}, must lie in [1, V = {}]", tensors.what("teacher_topk_ids"), k,
                    problem.spec.vocab);
  }
  tensors.require("teacher_topk_ids", {"I32"}, {tokens, k}, "[T, k]");
  const bool has_logprobs = tensors.has("teacher_topk_logprobs");
  if (has_logprobs && tensors.has("teacher_topk_logits")) {
    throw_bad_input(
        "{}: it holds teacher_topk_logits as well as teacher_topk_logprobs, must hold one of them",
        tensors.file().path());
  }
  const char* name = has_logprobs ? "teacher_topk_logprobs" : "teacher_topk_logits";
  problem.spec.teacher_topk = k;
  problem.teacher_sends_logprobs = has_logprobs;
  set_teacher(problem,
              make_logits_at_ids(read_topk_ids(tensors, problem, k),
                                 tensors.floats(name, {tokens, k}, "[T, k]"), k),
              DType::f32);
}

}  // namespace

void read_bundle_teacher(const BundleTensors& tensors, Problem& problem) {
  const bool has_topk = tensors.has("teacher_topk_ids") || tensors.has("teacher_topk_logits") ||
                        tensors.has("teacher_topk_logprobs");
  const bool has_hidden = tensors.has("teacher_hidden") || tensors.has("teacher_weight");
  const bool has_logits = tensors.has("teacher_logits");
  const auto refuse_both = [&](bool first, const char* of_first, bool second,
                               const char* of_second) {
    if (!first || !second) return;
    throw_bad_input("{}: it holds {} as well as {}, must hold one of them", tensors.file().path(),
                    of_first, of_second);
  };
  refuse_both(has_logits, "teacher_logits", has_topk, "teacher_topk_ids or teacher_topk_logits");
  refuse_both(has_logits, "teacher_logits", has_hidden, "teacher_hidden or teacher_weight");
  refuse_both(has_hidden, "teacher_hidden or teacher_weight", has_topk,
              "teacher_topk_ids or teacher_topk_logits");
  if (has_logits) read_teacher_logits(tensors, problem);
  if (has_hidden) read_teacher_hidden(tensors, problem);
  if (has_topk) read_teacher_topk(tensors, problem);
}

}  // namespace lossgrid
