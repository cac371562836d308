// SPDX-License-Identifier: Apache-2.0
// `TrialList`: the trials of a run in their order. A long run keeps the first ones in memory and
// the others in a file (keep_in_memory), so that its memory does not grow with them; a list that
// was read or made is all in memory.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/process/spool.h"
#include "reports/record/trial_record.h"

namespace lossgrid {

class TrialList {
 public:
  TrialList() = default;
  TrialList(std::vector<TrialRecord> trials) : first_(std::move(trials)) {}
  TrialList(std::initializer_list<TrialRecord> trials) : first_(trials) {}
  TrialList(const TrialList& other);
  TrialList(TrialList&&) noexcept = default;
  TrialList& operator=(TrialList other) noexcept;

  /// At most `count` trials stay in memory. Before the first push_back.
  void keep_in_memory(std::size_t count) { most_ = count; }

  void push_back(TrialRecord trial);

  std::size_t size() const { return first_.size() + others_.size(); }
  bool empty() const { return first_.empty(); }
  const TrialRecord& last() const { return last_ ? *last_ : first_.back(); }

  /// All trials, to be changed. Only of a list that is all in memory: throws internal otherwise.
  std::vector<TrialRecord>& in_memory();

  // As a vector has them, of a list that is all in memory.
  TrialRecord& emplace_back(TrialRecord trial = {}) {
    return in_memory().emplace_back(std::move(trial));
  }
  TrialRecord& back() { return in_memory().back(); }
  TrialRecord& operator[](std::size_t k) { return in_memory()[k]; }
  const TrialRecord& operator[](std::size_t k) const { return first_[k]; }
  void clear() { *this = TrialList(); }

  /// Goes through the trials from the first one on. A trial of the file is there until the iterator
  /// moves.
  class const_iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = TrialRecord;
    using difference_type = std::ptrdiff_t;
    using pointer = const TrialRecord*;
    using reference = const TrialRecord&;

    const_iterator() = default;
    const_iterator(const TrialList& list, std::size_t at) : list_(&list), at_(at) {}
    reference operator*() const;
    pointer operator->() const { return &**this; }
    const_iterator& operator++();
    void operator++(int) { ++*this; }
    bool operator==(const const_iterator& other) const { return at_ == other.at_; }

   private:
    struct InFile;

    const TrialList* list_ = nullptr;
    std::size_t at_ = 0;
    std::shared_ptr<InFile> in_file_;
  };
  const_iterator begin() const { return {*this, 0}; }
  const_iterator end() const { return {*this, size()}; }

 private:
  std::size_t most_ = std::numeric_limits<std::size_t>::max();
  std::vector<TrialRecord> first_;
  Spool others_;
  std::optional<TrialRecord> last_;  // of others_
};

}  // namespace lossgrid
