// SPDX-License-Identifier: Apache-2.0
// Machine: what a time model knows of the devices that ranks run on and of the links between them,
// as rates. Either every rank has a device of its own (a GPU), or all ranks of a node share one,
// the processor with its cores and its memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/dtype.h"

namespace lossgrid {

/// Memory, or a cache, of one device.
struct MemoryRates {
  std::int64_t bytes = 0;  // capacity
  // Bytes read, or read and written, by all threads of the device at once: from memory; from one
  // array to another; in place.
  double read_bytes_per_second = 0;
  double copy_bytes_per_second = 0;
  double update_bytes_per_second = 0;
};

/// Ways to make a collective of messages between ranks (collective_time.h).
enum class CollectiveAlgorithm { ring, tree, hierarchical, direct };

std::string_view name(CollectiveAlgorithm algorithm);

/// Links between ranks that are `ranks` neighbours by number: of a node, or of several.
struct LinkLevel {
  std::string name;
  std::int64_t ranks = 0;      // 0: any number, of the last level
  double latency_seconds = 0;  // of one message
  // The most that a rank sends, or receives; where ranks share a device, all of them together.
  double bytes_per_second = 0;
  double reduce_bytes_per_second = 0;  // the same of messages that are added up; 0: no other
  // The same where a cache that ranks share holds the messages; 0: no other.
  double cache_bytes_per_second = 0;
  double cache_reduce_bytes_per_second = 0;
};

/// Carrier of collectives: "nccl", "thread", "mpi".
struct Transport {
  std::string name;
  double call_seconds = 0;   // of a call, beside its messages
  bool takes_turns = false;  // ranks that share a core wait in turn: latencies grow with them
  std::vector<CollectiveAlgorithm> algorithms;  // those it has; the fastest one counts
  std::vector<LinkLevel> links;                 // from the inside to the outside
};

struct Machine {
  std::string name;
  std::string summary;
  bool measured = false;             // by `lossgrid calibrate`; else what its maker states
  std::vector<std::string> sources;  // of the numbers, where they are not measured
  std::int64_t ranks_per_node = 0;   // devices of a node, one for a rank; 0: ranks share `cores`
  std::int64_t cores = 0;            // of the only node, shared by its ranks; 0: GPUs
  MemoryRates memory;
  std::optional<MemoryRates> cache;
  // Rates of matrix products by the dtype of their factors, and of row kernels by that of the rows:
  // of elements that a cache holds, with one exponential each.
  std::map<DType, double> gemm_flops_per_second;
  std::map<DType, double> exponentials_per_second;
  // The same of exponentials that are kept and become the gradient of their row; empty: no slower.
  std::map<DType, double> kept_exponentials_per_second;
  // Part of the shorter one of memory and exponentials, in a pass over rows, that passes while the
  // longer one does: from 0, they take turns, to 1.
  double overlap = 1;
  double phase_seconds = 0;  // of a phase without rows, and of a chunk: launches, waits of threads
  double row_seconds = 0;    // of a row without a vocabulary, by one thread: objective, tables
  std::vector<Transport> transports;

  /// Returns the transport of that name, the first for "". Throws bad_input with the nearest name.
  const Transport& transport(const std::string& name) const;
  /// Returns the rate for a dtype; where none is stated that of f32.
  double gemm_rate(DType dtype) const;
  double exponential_rate(DType dtype) const;
  double kept_exponential_rate(DType dtype) const;
};

/// Part of a device that one of `ranks` ranks has.
struct DeviceShare {
  double compute = 1;  // of the rates of arithmetic
  double memory = 1;   // of memory and of links
  double turns = 1;    // ranks on a core, at least 1
};

/// Returns 1 each where ranks have devices of their own. Else ranks have equally many threads, one
/// at least, and share the memory.
DeviceShare share_of(const Machine& machine, std::int64_t ranks);

}  // namespace lossgrid
