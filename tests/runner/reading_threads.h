// SPDX-License-Identifier: Apache-2.0
// Logits that record the threads that read them, and let another thread have a turn.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "harness/problem/batch/problem.h"

namespace lossgrid {

class ReadingThreads final : public LogitsSource {
 public:
  explicit ReadingThreads(std::shared_ptr<const LogitsSource> read) : read_(std::move(read)) {}

  void read(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    note();
    read_->read(token, begin, out);
  }
  void read(std::int64_t token, std::int64_t begin, std::span<float> out) const override {
    note();
    read_->read(token, begin, out);
  }
  bool given() const override { return read_->given(); }
  double relative_error() const override { return read_->relative_error(); }
  void read_errors(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    read_->read_errors(token, begin, out);
  }

  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return threads_.size();
  }
  void forget() const {
    const std::lock_guard lock(mutex_);
    threads_.clear();
  }

 private:
  void note() const {
    {
      const std::lock_guard lock(mutex_);
      threads_.insert(std::this_thread::get_id());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  std::shared_ptr<const LogitsSource> read_;
  mutable std::mutex mutex_;
  mutable std::set<std::thread::id> threads_;
};

}  // namespace lossgrid
