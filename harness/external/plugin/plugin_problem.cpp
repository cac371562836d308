// SPDX-License-Identifier: Apache-2.0
#include "harness/external/plugin/plugin_problem.h"

#include <algorithm>

#include "harness/external/plugin/plugin_tensors.h"

namespace lossgrid {

PluginProblem::PluginProblem(const PluginImplementation& implementation,
                             const nlohmann::json& options, const nlohmann::json& problem,
                             const PluginPlace& place, DLDevice device)
    : weight_layout_(problem.at("weight_layout")),
      objective_(problem.at("objective").dump()),
      filtered_targets_(problem.at("filtered_targets")),
      cp_layout_(problem.at("cp_layout")) {
  set_options(implementation, options);
  set_what_is_taken(problem);
  lossgrid_problem& out = problem_;
  out.struct_size = sizeof(out);
  const nlohmann::json& grid = problem.at("grid");
  out.tp = grid.at("tp");
  out.cp = grid.at("cp");
  out.dp = grid.at("dp");
  out.tp_rank = place.tp_rank;
  out.cp_rank = place.cp_rank;
  out.dp_rank = place.dp_rank;
  out.vocab = problem.at("vocab");
  out.vocab_start = std::min(width() * place.tp_rank, out.vocab);
  out.vocab_end = std::min(out.vocab_start + width(), out.vocab);
  out.hidden = problem.at("hidden");
  out.dtype = dl_dtype(problem.at("dtype"));
  out.temperature = problem.at("temperature");
  out.weight_layout = weight_layout_.c_str();
  out.sequence_parallel = problem.at("sequence_parallel").get<bool>() ? 1 : 0;
  out.device = device;
  out.sequences = problem.at("sequences");
  out.tokens = problem.at("tokens");
  out.padded_tokens = problem.at("padded_tokens");
  out.own_rows = out.padded_tokens / out.cp;
  const bool whole = implementation.declaration.at("rows") == "pack";
  out.out_rows = whole ? out.padded_tokens : out.own_rows;
  out.valid_tokens = problem.at("valid_tokens");
  out.microbatch = problem.at("microbatch");
  out.microbatches = problem.at("microbatches");
  const nlohmann::json& counts = problem.at("denominators");
  out.global_valid_tokens = counts.at("valid_tokens");
  out.global_valid_sequences = counts.at("valid_sequences");
  out.global_positive_tokens = counts.at("positive_tokens");
  out.objective = objective_.c_str();
  out.options = values_.data();
  out.option_count = values_.size();
}

/// Sets the facts behind the words of `takes`.
void PluginProblem::set_what_is_taken(const nlohmann::json& problem) {
  lossgrid_problem& out = problem_;
  out.logit_scale = problem.at("logit_scale");
  out.logit_softcap = problem.at("logit_softcap");
  out.sequence_temperatures = problem.at("sequence_temperatures").get<bool>() ? 1 : 0;
  out.lm_head_bias = problem.at("lm_head_bias").get<bool>() ? 1 : 0;
  out.filtered_targets = filtered_targets_.c_str();
  const std::string teacher = problem.at("teacher_dtype");
  if (!teacher.empty()) out.teacher_dtype = dl_dtype(teacher);
  out.teacher_topk = problem.at("teacher_topk").get<bool>() ? 1 : 0;
  out.teacher_hidden = problem.at("teacher_hidden");
  out.cp_layout = cp_layout_.c_str();
}

void PluginProblem::set_options(const PluginImplementation& implementation,
                                const nlohmann::json& options) {
  texts_.reserve(implementation.options.size());  // values_ points to them
  for (const PluginOption& option : implementation.options) {
    const nlohmann::json value = options.value(option.name, option.default_value);
    lossgrid_value& out = values_.emplace_back();
    if (option.type == "int") out.as_int = value.get<std::int64_t>();
    if (option.type == "bool") out.as_int = value.get<bool>() ? 1 : 0;
    if (option.type == "float") out.as_float = value.get<double>();
    if (option.type == "str") out.as_str = texts_.emplace_back(value.get<std::string>()).c_str();
  }
}

}  // namespace lossgrid
