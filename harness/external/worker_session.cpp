// SPDX-License-Identifier: Apache-2.0
#include "harness/external/worker_session.h"

#include <fmt/format.h>

#include "harness/device/kernel/rank_threads.h"

namespace lossgrid {

WorkerSession::WorkerSession(WorkerPool& pool, const RankContext& context, PlanRequest request)
    : pool_(pool), ranks_(context.stage) {
  if (pool.host_makes_calls()) {
    const nlohmann::json& grid = request.problem.at("grid");
    calls_ =
        std::make_unique<HostCalls>(context, grid.at("tp").get<int>() * grid.at("cp").get<int>());
  }
  worker_ = &pool.join(ranks_);
  plan_ = worker_->next_plan();
  const std::string doing = fmt::format("begin of '{}'", request.implementation);
  const nlohmann::json begin{{"op", "begin"},
                             {"plan", plan_},
                             {"forget", worker_->take_ended_plans()},
                             {"implementation", std::move(request.implementation)},
                             {"options", std::move(request.options)},
                             {"problem", std::move(request.problem)},
                             {"arrays", request.arrays.list()},
                             {"threads", rank_threads()}};
  const int arena = request.arrays.descriptor();
  try {
    if (calls_) {
      send(begin, doing, {arena, calls_->descriptor()});
    } else {
      send(begin, doing, {arena});
    }
  } catch (...) {
    pool_.discard(ranks_.rank(), ranks_.size());
    throw;
  }
}

WorkerSession::~WorkerSession() {
  if (failed_) {
    pool_.discard(ranks_.rank(), ranks_.size());
  } else if (!is_over_) {
    worker_->end_plan(plan_);
  }
}

nlohmann::json WorkerSession::ask(const nlohmann::json& request, const std::string& doing) {
  nlohmann::json with_plan = request;
  with_plan["plan"] = plan_;
  return send(with_plan, doing);
}

std::optional<std::string> WorkerSession::end() {
  if (!calls_) return std::nullopt;
  const nlohmann::json answer = ask({{"op", "end"}}, "the end of a plan");
  is_over_ = true;
  return answer.value("left", "");
}

nlohmann::json WorkerSession::send(const nlohmann::json& request, const std::string& doing,
                                   std::initializer_list<int> descriptors) {
  MakeCall make_call;
  if (calls_) make_call = [this](const nlohmann::json& call) { return calls_->make(call); };
  try {
    return worker_->ask(ranks_, request, doing, descriptors, make_call);
  } catch (...) {
    failed_ = true;
    throw;
  }
}

}  // namespace lossgrid
