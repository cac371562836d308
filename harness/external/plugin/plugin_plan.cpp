// SPDX-License-Identifier: Apache-2.0
#include "harness/external/plugin/plugin_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "harness/device/backend.h"
#include "harness/device/device_work.h"
#include "harness/external/plugin/plugin_call.h"
#include "harness/external/plugin/plugin_changes.h"

namespace lossgrid {
namespace {

/// JSON has no NaN and no infinities.
nlohmann::json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

nlohmann::json calls_json(const LearnedCalls::Calls& calls) {
  nlohmann::json out = nlohmann::json::array();
  for (const LearnedCall& call : calls) {
    nlohmann::json entry{
        {"group", call.group}, {"op", call.operation}, {"bytes", call.payload_bytes}};
    entry["reduce"] = call.reduce.empty() ? nlohmann::json() : nlohmann::json(call.reduce);
    out.push_back(std::move(entry));
  }
  return out;
}

nlohmann::json sums_json(const LearnedCalls::Calls& calls) {
  std::map<std::pair<std::string, std::string>, std::pair<std::int64_t, std::int64_t>> sums;
  for (const LearnedCall& call : calls) {
    auto& [count, bytes] = sums[{call.group, call.operation}];
    ++count;
    bytes += call.payload_bytes;
  }
  nlohmann::json out = nlohmann::json::array();
  for (const auto& [key, sum] : sums) {
    out.push_back(
        {{"group", key.first}, {"op", key.second}, {"calls", sum.first}, {"bytes", sum.second}});
  }
  return out;
}

/// Plan of this rank's latest forward with gradients; null if the plan was destroyed.
thread_local PluginPlan* latest_plan = nullptr;

PluginPlace grid_place(const PluginRanks& ranks) {
  return {ranks.tp.rank(), ranks.cp.rank(), ranks.dp.rank()};
}

}  // namespace

/// Functions in the table of the context.
struct PluginContextTable {
  using Self = const lossgrid_context*;
  static PluginPlan& plan(Self self) { return *static_cast<PluginPlan*>(self->host); }
  static const DLTensor* array(Self self, const char* name) {
    return name == nullptr ? nullptr : plan(self).tensors_.find(name);
  }
  static void* allocate(Self self, std::size_t bytes, const char* tag) {
    return plan(self).memory_.allocate(bytes, tag);
  }
  static void release(Self self, void* memory) { plan(self).memory_.release(memory); }
};

PluginPlan::PluginPlan(const PluginImplementation& implementation, const nlohmann::json& options,
                       const nlohmann::json& problem, const PluginArena& arena, Device& device,
                       const PluginRanks& ranks)
    : implementation_(implementation),
      device_(device),
      ranks_(ranks),
      problem_(implementation, options, problem, grid_place(ranks), dl_device(device, ranks.world)),
      tensors_(device, arena,
               {problem_.width(), problem_.own_ids(), problem.at("weight_layout") == "vocab_hidden",
                problem_.get().device}),
      memory_(device),
      groups_(ranks, device),
      timer_(make_device_timer(device)) {
  make_context();
  groups_.begin_phase("plan", {});
  const lossgrid_implementation& table = *implementation_.table;
  call([&](lossgrid_error* error) { return table.plan(table.user, &context_, &plan_, error); });
  has_plan_ = true;
}

PluginPlan::~PluginPlan() {
  if (latest_plan == this) latest_plan = nullptr;
  try {
    end();
  } catch (...) {
    // Destructors never throw; earlier failures have been reported.
  }
}

void PluginPlan::make_context() {
  context_ = {.struct_size = sizeof(context_),
              .problem = &problem_.get(),
              .tp = groups_.tp(),
              .cp = groups_.cp(),
              .dp = groups_.dp(),
              .world = groups_.world(),
              .stream = problem_.get().device.device_type == kDLCUDA ? device_.stream() : nullptr,
              .labels = tensors_.find("labels"),
              .valid = tensors_.find("own.valid"),
              .positions = tensors_.find("positions"),
              .host = this,
              .array = PluginContextTable::array,
              .allocate = PluginContextTable::allocate,
              .release = PluginContextTable::release};
}

template <typename F>
void PluginPlan::call(F&& function) {
  try {
    call_plugin(function);
  } catch (const Error&) {
    groups_.rethrow_failure();  // the cause of the failure that the plugin reports
    throw;
  }
  groups_.rethrow_failure();
  memory_.require_right_releases();
}

template <typename F>
nlohmann::json PluginPlan::measure(const char* phase, const nlohmann::json& request, F&& function) {
  groups_.begin_phase(phase, change_);
  memory_.begin_phase();
  if (request.value("barrier", false)) ranks_.world.barrier();
  device_.synchronise();
  timer_->start();
  call(function);
  launches_pending() = true;  // the plugin may have launched work
  return measured(timer_->stop());
}

nlohmann::json PluginPlan::measured(std::int64_t time_ns) const {
  return {{"time_ns", time_ns},
          {"peak_bytes", memory_.peak_bytes()},
          {"collectives", sums_json(groups_.calls())},
          {"calls", calls_json(groups_.calls())}};
}

lossgrid_inputs PluginPlan::inputs() {
  return {.struct_size = sizeof(lossgrid_inputs),
          .logits = tensors_.find("logits"),
          .hidden = tensors_.find("hidden"),
          .weight = tensors_.find("weight"),
          .bias = tensors_.find("bias"),
          .sampling_mask = tensors_.find("sampling_mask"),
          .teacher_logits = tensors_.find("teacher_logits"),
          .teacher_hidden = tensors_.find("teacher_hidden"),
          .teacher_weight = tensors_.find("teacher_weight")};
}

nlohmann::json PluginPlan::forward(const nlohmann::json& request) {
  change_ = request.value("change", nlohmann::json());
  tensors_.read_inputs();
  change_inputs(change_, tensors_);
  tensors_.poison("out.");
  const lossgrid_inputs in = inputs();
  lossgrid_outputs out{.struct_size = sizeof(out),
                       .logprobs = tensors_.find("out.logprobs"),
                       .entropy = tensors_.find("out.entropy"),
                       .loss = std::nan("")};
  const int needs_gradient = request.value("grad", true) ? 1 : 0;
  if (needs_gradient != 0) latest_plan = this;
  const nlohmann::json seen = measure("forward", request, [&](lossgrid_error* error) {
    return implementation_.table->forward(plan_, &in, &out, needs_gradient, error);
  });
  tensors_.write("out.");
  finish_outputs();
  change_outputs(change_, tensors_);
  return {
      {"ok", true},           {"loss", number(out.loss)},          {"measured", seen},
      {"changed", changed()}, {"beyond", nlohmann::json::array()}, {"applied", groups_.applied()}};
}

/// Converts outputs to the form of the protocol.
void PluginPlan::finish_outputs() {
  const std::span<const std::int64_t> targets = tensors_.array<std::int64_t>("targets");
  const std::span<const std::int64_t> positions = tensors_.array<std::int64_t>("positions");
  const bool whole = implementation_.declaration.at("rows") == "pack";
  for (const char* name : {"out.logprobs", "out.entropy"}) {
    if (!tensors_.has(name)) continue;
    const std::span<float> values = tensors_.array<float>(name);
    const bool negated = implementation_.returns_nll() && std::string(name) == "out.logprobs";
    for (std::size_t k = 0; k < values.size(); ++k) {
      const std::size_t row = whole ? k : static_cast<std::size_t>(positions[k]);
      if (targets[row] < 0) {
        values[k] = 0;
      } else if (negated) {
        values[k] = -values[k];
      }
    }
  }
}

nlohmann::json PluginPlan::backward(const nlohmann::json& request) {
  if (implementation_.returns_nll()) {
    for (float& value : tensors_.array<float>("upstream.logprobs")) value = -value;
  }
  change_upstream(change_, tensors_);
  tensors_.read("upstream.");
  tensors_.poison("grad.");
  const lossgrid_inputs in = inputs();
  const lossgrid_upstream upstream{.struct_size = sizeof(upstream),
                                   .logprobs = tensors_.find("upstream.logprobs"),
                                   .entropy = tensors_.find("upstream.entropy"),
                                   .loss = request.value("loss_gradient", 1.0)};
  const lossgrid_gradients gradients{.struct_size = sizeof(gradients),
                                     .logits = tensors_.find("grad.logits"),
                                     .hidden = tensors_.find("grad.hidden"),
                                     .weight = tensors_.find("grad.weight"),
                                     .bias = tensors_.find("grad.bias")};
  const nlohmann::json seen = measure("backward", request, [&](lossgrid_error* error) {
    return implementation_.table->backward(plan_of_backward(), &in, &upstream, &gradients, error);
  });
  const std::vector<std::string> beyond = tensors_.written_in_padding();
  tensors_.write("grad.");
  change_gradients(change_, problem_.get(), tensors_);
  return {{"ok", true},
          {"measured", seen},
          {"changed", changed()},
          {"beyond", beyond},
          {"applied", groups_.applied()}};
}

/// Returns this plan or, for the mutant that confuses plans, the plan of the latest forward.
void* PluginPlan::plan_of_backward() const {
  const bool is_changed = change_.is_object() && change_.at("kind") == "latest_state";
  return is_changed && latest_plan != nullptr ? latest_plan->plan_ : plan_;
}

std::vector<std::string> PluginPlan::changed() const {
  if (change_.is_object()) return {};  // a mutant: its inputs are changed on purpose
  return tensors_.changed(!implementation_.declaration.at("overwrites").empty());
}

std::string PluginPlan::end() {
  if (!std::exchange(has_plan_, false)) return "";
  call_plainly([&] { implementation_.table->destroy(plan_); });
  memory_.require_right_releases();
  return memory_.left();
}

}  // namespace lossgrid
