// SPDX-License-Identifier: Apache-2.0
// `WorkerSession`: a plan in the worker process of a rank. After a failure the worker is killed
// with the session, and the next plan gets a new worker. One thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "harness/external/host_calls.h"
#include "harness/external/worker.h"

namespace lossgrid {

class WorkerSession final : public ExternalSession {
 public:
  /// Joins the workers of all ranks and sends `begin`. Collective. Throws the errors of
  /// Worker::ask.
  WorkerSession(WorkerPool& pool, const RankContext& context, PlanRequest request);
  ~WorkerSession() override;

  nlohmann::json ask(const nlohmann::json& request, const std::string& doing) override;
  std::optional<std::string> end() override;

 private:
  nlohmann::json send(const nlohmann::json& request, const std::string& doing,
                      std::initializer_list<int> descriptors = {});

  WorkerPool& pool_;
  Communicator& ranks_;
  std::unique_ptr<HostCalls> calls_;  // null if the worker makes its collectives itself
  Worker* worker_ = nullptr;
  std::int64_t plan_ = 0;
  bool is_over_ = false;
  bool failed_ = false;
};

}  // namespace lossgrid
