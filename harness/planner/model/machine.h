// SPDX-License-Identifier: Apache-2.0
// Machine: the rates of devices and of the links between them, for a time model. Either every rank
// has its own device (a GPU), or all ranks of a node share one device, the processor with its cores
// and its memory.
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
  // Bytes read, or read plus written, by all threads of the device together: reads from memory;
  // copies from one array to another; updates in place.
  double read_bytes_per_second = 0;
  double copy_bytes_per_second = 0;
  double update_bytes_per_second = 0;
};

/// Algorithms that make a collective from messages between ranks (collective_time.h).
enum class CollectiveAlgorithm { ring, tree, hierarchical, direct };

std::string_view name(CollectiveAlgorithm algorithm);

/// Links between `ranks` ranks with consecutive numbers, on one node or several nodes.
struct LinkLevel {
  std::string name;
  std::int64_t ranks = 0;      // 0: any number, on the last level
  double latency_seconds = 0;  // latency of one message
  // Highest rate at which a rank sends or receives; if ranks share a device, the rate of all ranks
  // together.
  double bytes_per_second = 0;
  double reduce_bytes_per_second = 0;  // rate of messages that are added up; 0: the same rate
  // Rates if a cache shared by the ranks holds the messages; 0: the same rates.
  double cache_bytes_per_second = 0;
  double cache_reduce_bytes_per_second = 0;
};

/// Carrier of collectives: "nccl", "thread", "mpi".
struct Transport {
  std::string name;
  double call_seconds = 0;   // time of a call without its messages
  bool takes_turns = false;  // ranks on one core wait in turn, so latencies add up
  std::vector<CollectiveAlgorithm> algorithms;  // available algorithms; the fastest counts
  std::vector<LinkLevel> links;                 // from the inside to the outside
};

struct Machine {
  std::string name;
  std::string summary;
  bool measured = false;             // by `lossgrid calibrate`; else stated by the maker
  std::vector<std::string> sources;  // sources of numbers that are not measured
  std::int64_t ranks_per_node = 0;   // devices of a node, one per rank; 0: ranks share `cores`
  std::int64_t cores = 0;            // cores of the only node, shared by its ranks; 0: GPUs
  MemoryRates memory;
  std::optional<MemoryRates> cache;
  // Rates of matrix products by dtype of the factors, and of row kernels by dtype of the rows:
  // elements in a cache, with one exponential per element.
  std::map<DType, double> gemm_flops_per_second;
  std::map<DType, double> exponentials_per_second;
  // Rates of exponentials that are kept and become the gradient of their row; empty: the same
  // rates.
  std::map<DType, double> kept_exponentials_per_second;
  // Overlap of memory and exponentials in a pass over rows: the part of the shorter time that
  // passes during the longer time, from 0 (they take turns) to 1.
  double overlap = 1;
  double phase_seconds = 0;  // time of an empty phase or chunk: launches, waits of threads
  double row_seconds = 0;    // of a row without its vocabulary, by one thread
  std::vector<Transport> transports;

  /// Returns the transport `name`, the first transport for "". Throws bad_input with the nearest
  /// name.
  const Transport& transport(const std::string& name) const;
  /// Returns the rate for a dtype, or the rate for f32 if the dtype has no rate.
  double gemm_rate(DType dtype) const;
  double exponential_rate(DType dtype) const;
  double kept_exponential_rate(DType dtype) const;
};

/// Part of a device that one of `ranks` ranks has.
struct DeviceShare {
  double compute = 1;  // share of the rates of arithmetic
  double memory = 1;   // share of the rates of memory and links
  double turns = 1;    // ranks on a core, at least 1
};

/// Returns shares of 1 if ranks have their own devices. Else all ranks have the same number of
/// threads, at least one, and share the memory.
DeviceShare device_share(const Machine& machine, std::int64_t ranks);

}  // namespace lossgrid
