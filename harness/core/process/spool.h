// SPDX-License-Identifier: Apache-2.0
// `Spool`: a list of byte strings in a file without a name, which is gone with its process. It is
// read from its beginning to its end. For lists that would not fit into memory, in the folder for
// temporary files (TMPDIR). What the file cannot hold, on a full disk, stays in memory. From one
// thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "harness/core/process/descriptor.h"

namespace lossgrid {

class Spool {
 public:
  void append(std::string_view record);
  std::size_t size() const { return size_; }

  /// Reads records one after the other.
  class Reader {
   public:
    explicit Reader(const Spool& spool) : spool_(&spool) {}

    /// Sets `record` to the next one; false behind the last one. Throws io.
    bool next(std::string& record);

   private:
    void take(char* to, std::size_t count);
    void read_ahead();

    const Spool* spool_;
    std::size_t read_ = 0;  // records
    std::int64_t at_ = 0;   // of all bytes, behind `ahead_`
    std::string ahead_;     // bytes that were read, of which `used_` are taken
    std::size_t used_ = 0;
  };

 private:
  void write_pending();

  Descriptor file_;      // opened with the first piece
  std::string pending_;  // bytes behind those in the file
  std::int64_t written_ = 0;
  bool is_full_ = false;
  std::size_t size_ = 0;
};

}  // namespace lossgrid
