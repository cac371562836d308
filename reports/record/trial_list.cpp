// SPDX-License-Identifier: Apache-2.0
#include "reports/record/trial_list.h"

#include "harness/core/error.h"
#include "reports/record/packed_record.h"

namespace lossgrid {

TrialList::TrialList(const TrialList& other) : most_(other.most_) {
  for (const TrialRecord& trial : other) push_back(trial);
}

TrialList& TrialList::operator=(TrialList other) noexcept {
  std::swap(most_, other.most_);
  std::swap(first_, other.first_);
  std::swap(others_, other.others_);
  std::swap(last_, other.last_);
  return *this;
}

void TrialList::push_back(TrialRecord trial) {
  if (first_.size() < most_) {
    first_.push_back(std::move(trial));
    return;
  }
  others_.append(RecordPacker::bytes_of(trial));
  last_ = std::move(trial);
}

std::vector<TrialRecord>& TrialList::in_memory() {
  if (last_) throw Error(ErrorCode::internal, "trials are in a file, and cannot be changed");
  return first_;
}

struct TrialList::const_iterator::InFile {
  Spool::Reader reader;
  RecordUnpacker unpacker = {};
  std::string bytes = {};
  TrialRecord trial = {};
};

const TrialRecord& TrialList::const_iterator::operator*() const {
  return at_ < list_->first_.size() ? list_->first_[at_] : in_file_->trial;
}

TrialList::const_iterator& TrialList::const_iterator::operator++() {
  ++at_;
  if (at_ < list_->first_.size() || at_ == list_->size()) return *this;
  if (!in_file_) in_file_ = std::make_shared<InFile>(InFile{Spool::Reader(list_->others_)});
  in_file_->reader.next(in_file_->bytes);
  in_file_->trial = in_file_->unpacker.next_trial(in_file_->bytes, std::move(in_file_->trial));
  return *this;
}

}  // namespace lossgrid
