// SPDX-License-Identifier: Apache-2.0
// Communicator: a group of ranks that call the same collectives in the same order. Collectives
// block until the result is there. A rank that fails calls `abort`; then every pending and later
// call on every rank of the whole run throws Error(aborted), so that nobody waits for it. Calls
// that do not match (another operation, count or type on some rank) throw on all ranks. One thread
// per rank object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "harness/core/dtype.h"

namespace lossgrid {

enum class ReduceOp { sum, max, min };

enum class Collective { all_reduce, all_gather, reduce_scatter, broadcast, barrier };
inline constexpr int kCollectives = 5;

struct CallSignature;  // call_signature.h

std::string_view name(ReduceOp op);
std::string_view name(Collective collective);

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Returns "world", "tp", "cp", ..., for messages and for the counts in a report.
  virtual std::string_view name() const = 0;

  /// Reduces in place: data[i] := op over ranks of data[i], for f64, f32, i64 and i32. In rank
  /// order: the same bits on all ranks in every run (sums over NCCL: nccl_transport.h). max and min
  /// keep a NaN.
  virtual void all_reduce(void* data, std::size_t count, DType dtype, ReduceOp op) = 0;
  /// Gathers receive[r * count ..] := the send of rank r; any dtype.
  virtual void all_gather(const void* send, void* receive, std::size_t count, DType dtype) = 0;
  /// Reduces all sends of size() * count elements; receive := this rank's part of the result,
  /// rank() * count ...
  virtual void reduce_scatter(const void* send, void* receive, std::size_t count, DType dtype,
                              ReduceOp op) = 0;
  /// Copies `data` of rank `root` to all ranks; any dtype.
  virtual void broadcast(void* data, std::size_t count, DType dtype, int root) = 0;
  /// Returns when all ranks have entered it.
  virtual void barrier() = 0;

  /// Makes a communicator of the ranks with the same `color`, ordered by (key, rank). Collective.
  virtual std::unique_ptr<Communicator> split(int color, int key, std::string name) = 0;

  /// Runs a collective whose payload another transport moves: a rendezvous of the members in
  /// `call`, then calls of `advance` until it returns true. `advance` starts the transfer and
  /// returns true at its end. Members are compared, and failures and deadlines noticed, as in the
  /// calls above; exceptions of `advance` pass through. A caller that gives a transfer up has to
  /// end the part that was started.
  virtual void transfer_external(const CallSignature& call,
                                 const std::function<bool()>& advance) = 0;

  /// Fails all ranks of the run with `reason`. Any thread may call it.
  virtual void abort(const std::string& reason) noexcept = 0;

  template <typename T>
  void all_reduce(std::span<T> data, ReduceOp op) {
    all_reduce(data.data(), data.size(), DTypeOf<T>::value, op);
  }
  template <typename T>
  void all_gather(std::span<const T> send, std::span<T> receive) {
    all_gather(send.data(), receive.data(), send.size(), DTypeOf<T>::value);
  }
  template <typename T>
  void reduce_scatter(std::span<const T> send, std::span<T> receive, ReduceOp op) {
    reduce_scatter(send.data(), receive.data(), receive.size(), DTypeOf<T>::value, op);
  }
  template <typename T>
  void broadcast(std::span<T> data, int root) {
    broadcast(data.data(), data.size(), DTypeOf<T>::value, root);
  }
};

}  // namespace lossgrid
