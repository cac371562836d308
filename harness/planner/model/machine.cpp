// SPDX-License-Identifier: Apache-2.0
#include "harness/planner/model/machine.h"

#include <algorithm>
#include <array>

#include "harness/core/error.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

double rate_for(const std::map<DType, double>& rates, DType dtype) {
  const auto found = rates.find(dtype);
  return found != rates.end() ? found->second : rates.at(DType::f32);
}

}  // namespace

std::string_view name(CollectiveAlgorithm algorithm) {
  constexpr std::array<std::string_view, 4> kNames{"ring", "tree", "hierarchical", "direct"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

const Transport& Machine::transport(const std::string& wanted) const {
  if (wanted.empty()) return transports.front();
  std::vector<std::string> known;
  for (const Transport& transport : transports) {
    if (transport.name == wanted) return transport;
    known.push_back(transport.name);
  }
  throw Error(ErrorCode::bad_input,
              unknown_name_message("transport of machine " + name, wanted, known));
}

double Machine::gemm_rate(DType dtype) const {
  return rate_for(gemm_flops_per_second, dtype);
}

double Machine::exponential_rate(DType dtype) const {
  return rate_for(exponentials_per_second, dtype);
}

double Machine::kept_exponential_rate(DType dtype) const {
  const auto& rates =
      kept_exponentials_per_second.empty() ? exponentials_per_second : kept_exponentials_per_second;
  return rate_for(rates, dtype);
}

DeviceShare device_share(const Machine& machine, std::int64_t ranks) {
  if (machine.cores == 0) return {};
  const auto all = static_cast<double>(ranks);
  const auto cores = static_cast<double>(machine.cores);
  const auto threads = static_cast<double>(std::max<std::int64_t>(1, machine.cores / ranks));
  return {std::min(threads / cores, 1 / all), 1 / all, std::max(1.0, all / cores)};
}

}  // namespace lossgrid
