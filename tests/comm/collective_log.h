// SPDX-License-Identifier: Apache-2.0
// Log of the bits that collectives of every kind, type and size give to a rank, by which transports
// are compared.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "comm/values.h"
#include "harness/comm/communicator.h"

namespace lossgrid {

// Sizes on both sides of the thresholds of transports: payloads sent with the call of MPI, gathered
// at once, whole segments.
inline constexpr std::array<std::size_t, 12> kLoggedCounts{0,   1,    7,    8,    15,   16,
                                                           117, 1000, 1024, 1025, 2049, 70001};

/// Fingerprints of the results of a rank after a list of collectives.
class Log {
 public:
  template <typename T>
  void add(const std::string& what, const std::vector<T>& result) {
    names_.push_back(what);
    digests_.push_back(fingerprint(std::as_bytes(std::span(result))));
  }
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<std::uint64_t>& digests() const { return digests_; }

 private:
  std::vector<std::string> names_;
  std::vector<std::uint64_t> digests_;
};

/// Some values are NaN, of ranks in turn.
template <typename T>
std::vector<T> data_of(int rank, std::size_t count, std::uint64_t salt) {
  std::vector<T> out = values_of<T>(rank, count, salt);
  if constexpr (std::is_floating_point_v<T>) {
    for (auto i = static_cast<std::size_t>(rank) + 3; i < count; i += 37) {
      out[i] = std::numeric_limits<T>::quiet_NaN();
    }
  }
  return out;
}

template <typename T>
void log_reductions(Communicator& comm, Log& log) {
  const auto size = static_cast<std::size_t>(comm.size());
  for (const std::size_t count : kLoggedCounts) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
      const std::string what = fmt::format("{} of {} {}", name(op), count, name(DTypeOf<T>::value));
      // The compiler decides which of several NaN a sum gives, its operands being commutative.
      std::vector<T> data = op == ReduceOp::sum ? values_of<T>(comm.rank(), count, 1)
                                                : data_of<T>(comm.rank(), count, 1);
      comm.all_reduce(std::span(data), op);
      log.add("all_reduce " + what, data);
      if (count * size > 200000) continue;
      const std::vector<T> send = data_of<T>(comm.rank(), count * size, 2);
      std::vector<T> receive(count);
      comm.reduce_scatter(std::span<const T>(send), std::span(receive), op);
      for (T& value : receive) {
        if (value != value) value = std::numeric_limits<T>::quiet_NaN();
      }
      log.add("reduce_scatter " + what, receive);
    }
  }
}

template <typename T>
void log_movements(Communicator& comm, Log& log) {
  const auto size = static_cast<std::size_t>(comm.size());
  for (const std::size_t count : kLoggedCounts) {
    const std::string what = fmt::format("of {} {}", count, name(DTypeOf<T>::value));
    const std::vector<T> send = values_of<T>(comm.rank(), count, 3);
    std::vector<T> receive(count * size);
    comm.all_gather(std::span<const T>(send), std::span(receive));
    log.add("all_gather " + what, receive);
    for (int root = 0; root < comm.size(); root += 3) {
      std::vector<T> data = values_of<T>(comm.rank(), count, 4);
      comm.broadcast(std::span(data), root);
      log.add(fmt::format("broadcast {} from {}", what, root), data);
    }
  }
}

inline Log log_all(Communicator& comm) {
  Log log;
  log_reductions<double>(comm, log);
  log_reductions<float>(comm, log);
  log_reductions<std::int64_t>(comm, log);
  log_reductions<std::int32_t>(comm, log);
  log_movements<double>(comm, log);
  log_movements<bf16>(comm, log);
  log_movements<std::uint8_t>(comm, log);
  return log;
}

}  // namespace lossgrid
