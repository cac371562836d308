// SPDX-License-Identifier: Apache-2.0
#include "harness/external/problem_json.h"

#include <algorithm>

#include "harness/device/backend.h"
#include "harness/external/arena_layout.h"
#include "harness/loss/registry.h"
#include "harness/problem/batch/sharding.h"
#include "harness/problem/case/case_keys.h"

namespace lossgrid {
namespace {

/// Returns the number of targets of the pack that are trained on. Within `lossgrid plan` there are
/// no tokens, only their number.
std::int64_t valid_tokens(const PackedBatch& batch) {
  const bool has_tokens = static_cast<std::int64_t>(batch.token_mask.size()) == batch.tokens();
  if (!has_tokens) return batch.denominators.valid_tokens;
  const std::vector<std::uint8_t> valid = shift_targets(batch).valid;
  return std::count(valid.begin(), valid.end(), std::uint8_t{1});
}

/// Returns "" without a sampling mask.
const char* filtered_targets(const Sampling& sampling) {
  if (!sampling.has_mask) return "";
  return sampling.zeroes_targets ? "zero" : "drop";
}

/// Returns a case with the head of the objective.
CaseSpec case_with_head(const LossProblem& problem) {
  CaseSpec spec;
  spec.head = problem.objective.needs().head;
  return spec;
}

}  // namespace

nlohmann::json problem_json(const LossProblem& problem) {
  nlohmann::json objective{{"kind", problem.objective_spec.kind}};
  nlohmann::json changed = nlohmann::json::array();
  const ObjectiveOptions usual = with_all_options({problem.objective_spec.kind, {}}).options;
  for (const auto& [name, text] : with_all_options(problem.objective_spec).options) {
    objective[name] = nlohmann::json::parse(text);
    const auto found = usual.find(name);  // some options only exist with others
    const bool is_usual =
        found != usual.end() && objective[name] == nlohmann::json::parse(found->second);
    if (!is_usual) changed.push_back(name);
  }
  const PackedBatch& batch = problem.batch;
  const bool by_id = problem.head.layout == WeightLayout::vocab_hidden;
  const CpLayoutRules& layout = rules_of(problem.grid.cp_layout);
  const nlohmann::json cut{
      {"sequences", layout.cuts_sequences}, {"rounds", layout.rounds}, {"turns", layout.turns}};
  return {{"grid", {{"tp", problem.grid.tp}, {"cp", problem.grid.cp}, {"dp", problem.grid.dp}}},
          {"vocab", problem.vocab},
          {"head", find_case_key("head")->get(case_with_head(problem))},
          {"hidden", problem.head.hidden},
          {"dtype", protocol_name(problem.dtype)},
          {"logit_scale", problem.transform.scale},
          {"logit_softcap", problem.transform.softcap},
          {"temperature", problem.transform.temperature},
          {"sequence_temperatures", problem.transform.by_sequence},
          {"teacher_dtype", problem.has_teacher() ? protocol_name(problem.teacher.dtype) : ""},
          {"teacher_topk", problem.teacher.sends_topk},
          {"teacher_hidden", problem.makes_teacher() ? problem.teacher.hidden : 0},
          {"filtered_targets", filtered_targets(problem.sampling)},
          {"lm_head_bias", problem.head.has_bias},
          {"weight_layout", by_id ? "vocab_hidden" : "hidden_vocab"},
          {"sequence_parallel", problem.grid.sp},
          {"cp_layout", layout.name},
          {"cp_cut", cut},
          {"device", traits_of(problem.backend).tensor_device},
          {"sequences", batch.sequences()},
          {"tokens", batch.tokens()},
          {"padded_tokens", batch.padded_tokens()},
          {"valid_tokens", valid_tokens(batch)},
          {"microbatch", batch.microbatch.index},
          {"microbatches", batch.microbatch.count},
          {"objective", objective},
          {"objective_changed", changed},
          {"input_sum", batch.input_sum},
          {"denominators",
           {{"valid_tokens", batch.denominators.valid_tokens},
            {"valid_sequences", batch.denominators.valid_sequences},
            {"positive_tokens", batch.denominators.positive_tokens},
            {"trained_sequences", batch.denominators.trained_sequences},
            {"all_sequences", batch.denominators.all_sequences},
            {"trained_groups", batch.denominators.trained_groups},
            {"all_groups", batch.denominators.all_groups}}}};
}

nlohmann::json problem_json(const LossProblem& problem, int tp_rank, int cp_rank) {
  nlohmann::json json = problem_json(problem);
  json["tp_rank"] = tp_rank;
  json["cp_rank"] = cp_rank;
  return json;
}

}  // namespace lossgrid
