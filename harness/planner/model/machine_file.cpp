// SPDX-License-Identifier: Apache-2.0
#include "harness/planner/model/machine_file.h"

#include <algorithm>
#include <array>

#include "harness/core/error.h"
#include "harness/core/file.h"
#include "harness/core/text.h"
#include "harness/problem/case/checked_json.h"
#include "harness/problem/case/suite.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kRatedTypes{DType::f32, DType::bf16};
constexpr std::array kAlgorithms{CollectiveAlgorithm::ring, CollectiveAlgorithm::tree,
                                 CollectiveAlgorithm::hierarchical, CollectiveAlgorithm::direct};
const std::string kMemoryKeyNames[] = {"bytes", "read_bytes_per_second", "copy_bytes_per_second",
                                       "update_bytes_per_second"};

/// Rates of a link that may be missing.
struct OtherRate {
  const char* key;
  double LinkLevel::*rate;
};

constexpr std::array<OtherRate, 3> kOtherRates{
    {{"reduce_bytes_per_second", &LinkLevel::reduce_bytes_per_second},
     {"cache_bytes_per_second", &LinkLevel::cache_bytes_per_second},
     {"cache_reduce_bytes_per_second", &LinkLevel::cache_reduce_bytes_per_second}}};

/// Object of a machine file with its place in the file.
struct Place {
  const Json& object;
  std::string where;

  Place in(std::string_view key) const {
    return {required_member(object, key, where), fmt::format("{}.{}", where, key)};
  }
};

double positive(const Place& at, std::string_view key) {
  const Json& value = required_member(at.object, key, at.where);
  if (!value.is_number() || !(value.get<double>() > 0)) {
    throw_bad_input("{}: {} = {} is not a positive number", at.where, key, value.dump());
  }
  return value.get<double>();
}

bool boolean(const Place& at, std::string_view key) {
  const Json& value = required_member(at.object, key, at.where);
  if (!value.is_boolean()) throw_bad_input("{}: {} is neither true nor false", at.where, key);
  return value.get<bool>();
}

/// Returns the number of an optional key; 0 if the key is missing.
double not_negative(const Place& at, std::string_view key) {
  const double value = number_or(at.object, key, 0, at.where);
  if (!(value >= 0)) throw_bad_input("{}: {} = {} is negative", at.where, key, value);
  return value;
}

/// Returns the whole number of an optional key; 0 if the key is missing.
std::int64_t count(const Place& at, std::string_view key) {
  const auto found = at.object.find(key);
  if (found == at.object.end()) return 0;
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (!found->is_number_integer() || *found < 0 || *found > kMost) {
    throw_bad_input("{}: {} = {} is not a whole number in [0, {}]", at.where, key, found->dump(),
                    kMost);
  }
  return found->get<std::int64_t>();
}

MemoryRates read_memory(const Place& at) {
  const auto* const keys = std::begin(kMemoryKeyNames);
  require_known_keys(at.object, {keys, std::end(kMemoryKeyNames)}, "memory", at.where);
  constexpr double kMost = 0x1p62;
  return {static_cast<std::int64_t>(std::min(kMost, positive(at, keys[0]))), positive(at, keys[1]),
          positive(at, keys[2]), positive(at, keys[3])};
}

std::map<DType, double> read_rates(const Place& at) {
  std::map<DType, double> rates;
  std::vector<std::string> known;
  for (const DType dtype : kRatedTypes) known.emplace_back(name(dtype));
  require_known_keys(at.object, known, "dtype", at.where);
  for (const DType dtype : kRatedTypes) {
    if (dtype != DType::f32 && !at.object.contains(name(dtype))) continue;
    rates[dtype] = positive(at, name(dtype));
  }
  return rates;
}

CollectiveAlgorithm read_algorithm(const std::string& text, const std::string& where) {
  std::vector<std::string> known;
  for (const CollectiveAlgorithm algorithm : kAlgorithms) {
    if (name(algorithm) == text) return algorithm;
    known.emplace_back(name(algorithm));
  }
  throw_bad_input("{}: {}", where, unknown_name_message("algorithm", text, known));
}

LinkLevel read_link(const Place& at) {
  require_known_keys(
      at.object,
      {"name", "ranks", "latency_seconds", "bytes_per_second", "reduce_bytes_per_second",
       "cache_bytes_per_second", "cache_reduce_bytes_per_second"},
      "link", at.where);
  LinkLevel link;
  link.name = required_text(at.object, "name", at.where);
  link.ranks = count(at, "ranks");
  link.latency_seconds = positive(at, "latency_seconds");
  link.bytes_per_second = positive(at, "bytes_per_second");
  for (const auto& [key, rate] : kOtherRates) {
    if (at.object.contains(key)) link.*rate = positive(at, key);
  }
  return link;
}

Transport read_transport(const Place& at) {
  require_known_keys(at.object, {"name", "call_seconds", "takes_turns", "algorithms", "links"},
                     "transport", at.where);
  Transport transport;
  transport.name = required_text(at.object, "name", at.where);
  transport.call_seconds = not_negative(at, "call_seconds");
  transport.takes_turns = at.object.contains("takes_turns") && boolean(at, "takes_turns");
  for (const std::string& text : required_names(at.object, "algorithms", at.where)) {
    transport.algorithms.push_back(read_algorithm(text, at.where));
  }
  for (const Json& link : required_list(at.object, "links", at.where)) {
    transport.links.push_back(
        read_link({link, fmt::format("{}.links[{}]", at.where, transport.links.size())}));
  }
  if (transport.links.back().ranks != 0) {
    throw_bad_input("{}: the last of links joins any number of ranks (ranks = 0)", at.where);
  }
  return transport;
}

Machine read_machine(const Place& at) {
  require_known_keys(
      at.object,
      {"name", "summary", "measured", "sources", "ranks_per_node", "cores", "memory", "cache",
       "gemm_flops_per_second", "exponentials_per_second", "kept_exponentials_per_second",
       "overlap", "phase_seconds", "row_seconds", "transports"},
      "machine", at.where);
  Machine machine;
  machine.name = required_text(at.object, "name", at.where);
  machine.summary = required_text(at.object, "summary", at.where);
  machine.measured = boolean(at, "measured");
  if (!machine.measured) machine.sources = required_names(at.object, "sources", at.where);
  machine.ranks_per_node = count(at, "ranks_per_node");
  machine.cores = count(at, "cores");
  if ((machine.ranks_per_node > 0) == (machine.cores > 0)) {
    throw_bad_input("{}: one of ranks_per_node and cores is positive, the other is not given",
                    at.where);
  }
  machine.memory = read_memory(at.in("memory"));
  if (at.object.contains("cache")) machine.cache = read_memory(at.in("cache"));
  machine.gemm_flops_per_second = read_rates(at.in("gemm_flops_per_second"));
  machine.exponentials_per_second = read_rates(at.in("exponentials_per_second"));
  if (at.object.contains("kept_exponentials_per_second")) {
    machine.kept_exponentials_per_second = read_rates(at.in("kept_exponentials_per_second"));
  }
  if (at.object.contains("overlap")) machine.overlap = not_negative(at, "overlap");
  if (machine.overlap > 1) {
    throw_bad_input("{}: overlap = {} is greater than 1", at.where, machine.overlap);
  }
  machine.phase_seconds = not_negative(at, "phase_seconds");
  machine.row_seconds = not_negative(at, "row_seconds");
  for (const Json& transport : required_list(at.object, "transports", at.where)) {
    machine.transports.push_back(read_transport(
        {transport, fmt::format("{}.transports[{}]", at.where, machine.transports.size())}));
  }
  return machine;
}

Json entry_json(const MemoryRates& memory) {
  return {{kMemoryKeyNames[0], memory.bytes},
          {kMemoryKeyNames[1], memory.read_bytes_per_second},
          {kMemoryKeyNames[2], memory.copy_bytes_per_second},
          {kMemoryKeyNames[3], memory.update_bytes_per_second}};
}

Json entry_json(const std::map<DType, double>& rates) {
  Json out = Json::object();
  for (const auto& [dtype, rate] : rates) out[std::string(name(dtype))] = rate;
  return out;
}

Json entry_json(const Transport& transport) {
  Json out{{"name", transport.name}, {"call_seconds", transport.call_seconds}};
  if (transport.takes_turns) out["takes_turns"] = true;
  out["algorithms"] = Json::array();
  for (const CollectiveAlgorithm algorithm : transport.algorithms) {
    out["algorithms"].push_back(name(algorithm));
  }
  out["links"] = Json::array();
  for (const LinkLevel& link : transport.links) {
    Json entry{{"name", link.name},
               {"ranks", link.ranks},
               {"latency_seconds", link.latency_seconds},
               {"bytes_per_second", link.bytes_per_second}};
    for (const auto& [key, rate] : kOtherRates) {
      if (link.*rate > 0) entry[key] = link.*rate;
    }
    out["links"].push_back(std::move(entry));
  }
  return out;
}

Json entry_json(const Machine& machine) {
  Json out{{"name", machine.name}, {"summary", machine.summary}, {"measured", machine.measured}};
  if (!machine.sources.empty()) out["sources"] = machine.sources;
  if (machine.ranks_per_node > 0) out["ranks_per_node"] = machine.ranks_per_node;
  if (machine.cores > 0) out["cores"] = machine.cores;
  out["memory"] = entry_json(machine.memory);
  if (machine.cache) out["cache"] = entry_json(*machine.cache);
  out["gemm_flops_per_second"] = entry_json(machine.gemm_flops_per_second);
  out["exponentials_per_second"] = entry_json(machine.exponentials_per_second);
  if (!machine.kept_exponentials_per_second.empty()) {
    out["kept_exponentials_per_second"] = entry_json(machine.kept_exponentials_per_second);
  }
  if (machine.overlap < 1) out["overlap"] = machine.overlap;
  out["phase_seconds"] = machine.phase_seconds;
  out["row_seconds"] = machine.row_seconds;
  out["transports"] = Json::array();
  for (const Transport& transport : machine.transports) {
    out["transports"].push_back(entry_json(transport));
  }
  return out;
}

bool is_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".json");
}

}  // namespace

std::string machines_path() {
  return cases_directory() + "/machines.json";
}

std::vector<Machine> read_machines(const std::string& path) {
  const Json file = parse_json_file(read_text_file(path), path);
  require_known_keys(file, {"machines", "entries"}, "machine file", path);
  if (required_member(file, "machines", path) != 1) {
    throw_bad_input("{}: not machines of version 1", path);
  }
  std::vector<Machine> machines;
  for (const Json& entry : required_list(file, "entries", path)) {
    machines.push_back(
        read_machine({entry, fmt::format("{}: entries[{}]", path, machines.size())}));
  }
  return machines;
}

Machine find_machine(const std::string& name) {
  const bool from_file = is_path(name);
  std::vector<Machine> machines = read_machines(from_file ? name : machines_path());
  if (from_file) {
    if (machines.size() > 1) throw_bad_input("{}: more than one machine", name);
    return std::move(machines.front());
  }
  std::vector<std::string> known;
  for (Machine& machine : machines) {
    if (machine.name == name) return std::move(machine);
    known.push_back(machine.name);
  }
  throw Error(ErrorCode::bad_input, unknown_name_message("machine", name, known));
}

Json machines_to_json(const std::vector<Machine>& machines) {
  Json file{{"machines", 1}, {"entries", Json::array()}};
  for (const Machine& machine : machines) file["entries"].push_back(entry_json(machine));
  return file;
}

}  // namespace lossgrid
